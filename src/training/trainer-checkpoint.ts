/**
 * A trainer's whole state in a folder: weights in Hugging Face layout, optimizer and counters beside them.
 *
 * Written to a new folder by whoever calls it; loading it gives the same numbers as never having stopped. What is written does not depend on
 * how the work is spread: all ranks give their part, the first one writes whole tensors, and each rank loads its part of those.
 */
import { resolve } from "node:path";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loraAdapters } from "../models/causal-lm/lora.ts";
import { saveLora } from "../models/causal-lm/lora-files.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { loadValueHead, saveValueHead, ValueHead } from "../models/causal-lm/value-head.ts";
import type { FileSink } from "../models/formats/file-sink.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { withPrefix } from "../torch/optim/parameter-group.ts";
import type { Tensor } from "../torch/tensor.ts";
import { readState, writeCollected } from "./state-files.ts";
import type { StrategyBuilder } from "./strategy/strategy.ts";
import type { TrainedCritic } from "./token-trainer.ts";

type Strategy = Pick<StrategyBuilder, "isFirst" | "collect" | "restore">;

/** Weights and tokenizer, as any other tool loads them. With adapters: the adapters alone, as PEFT stores them, with the folder of their base. */
export function saveModel(
  model: CausalLm,
  folder: string,
  files: ReadonlyMap<string, Uint8Array>,
  baseFolder: string,
  to: SaveTarget,
): void {
  if (loraAdapters(model).size > 0) saveLora(model, folder, { baseModel: resolve(baseFolder), ...to });
  else saveCausalLm(model, folder, { files, ...to });
}

/** Who writes, and where to. Every rank gives its part. */
interface SaveTarget {
  readonly isWriter: boolean;
  readonly sink: FileSink;
}

/** The parameters that learn, by name, and everything about them that the optimizer knows. `hasParameters` false: only the latter. */
export async function saveOptimizer(
  strategy: Strategy,
  optimizer: Optimizer,
  folder: string,
  sink: FileSink,
  { hasParameters = true } = {},
): Promise<void> {
  const state = await strategy.collect(optimizer);
  const tensors = state.tensors.filter(({ of }) => hasParameters || of === "optimizer");
  try {
    writeCollected(folder, { ...state, tensors }, strategy.isFirst, sink);
  } finally {
    state.dispose();
  }
}

/** Puts parameters and optimizer back to what they were, to the bit. `others` are values of parameters that are stored elsewhere. */
export function loadOptimizer(
  strategy: Strategy,
  optimizer: Optimizer,
  folder: string,
  others: ReadonlyMap<string, Tensor> = new Map(),
): void {
  readState(folder, (state) =>
    strategy.restore(optimizer, { ...state, parameters: new Map([...others, ...state.parameters]) }),
  );
}

export async function saveCritic(
  strategy: Strategy,
  { model, head, optimizer }: TrainedCritic,
  folder: string,
  sink: FileSink,
): Promise<void> {
  const isWriter = strategy.isFirst;
  saveCausalLm(model, folder, { isWriter, sink });
  model.runner.withWeights(null, () => isWriter && saveValueHead(head, folder, sink));
  await saveOptimizer(strategy, optimizer, folder, sink, { hasParameters: false });
}

export function loadCritic(strategy: Strategy, { model, optimizer }: TrainedCritic, folder: string): void {
  const saved = loadCausalLm(folder, { dtype: model.embedding.dtype });
  const savedHead = new ValueHead(model.config.width);
  loadValueHead(savedHead, folder);
  const values = [...withPrefix("model", saved.namedParameters()), ...withPrefix("head", savedHead.namedParameters())];
  loadOptimizer(strategy, optimizer, folder, new Map(values));
  saved.dispose();
  savedHead.dispose();
}
