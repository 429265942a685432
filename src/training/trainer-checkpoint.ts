/**
 * A trainer's whole state in a folder: weights in Hugging Face layout, optimizer and counters beside them.
 *
 * Written to a new folder by whoever calls it; loading it gives the same numbers as never having stopped. The weights do not depend on how the
 * work is spread: all ranks give their part, and the first one writes whole tensors. Of the rest each rank writes what it has, and reads what it
 * needs of what all have written.
 */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loraAdapters } from "../models/causal-lm/lora.ts";
import { saveLora } from "../models/causal-lm/lora-files.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { loadValueHead, saveValueHead, ValueHead, valueHeadFile } from "../models/causal-lm/value-head.ts";
import type { FileSink } from "../models/formats/file-sink.ts";
import { cutPart } from "../torch/distributed/tensor-part.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { withPrefix } from "../torch/optim/parameter-group.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { readShards, writeShard } from "./state-shards.ts";
import type { StrategyBuilder } from "./strategy/strategy.ts";
import type { TrainedCritic } from "./token-trainer.ts";

type Strategy = Pick<StrategyBuilder, "isFirst" | "shard" | "parts" | "restore">;

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

/** This rank's part of the parameters that learn, and everything about them that the optimizer knows. `hasParameters` false: only the latter. */
export function saveOptimizer(
  strategy: Strategy,
  optimizer: Optimizer,
  folder: string,
  sink: FileSink,
  { hasParameters = true } = {},
): void {
  const { shard, isFirst } = strategy;
  if (shard.count === 1 && !isFirst) return;
  tensorScope(() => {
    const { tensors, numbers } = strategy.parts(optimizer);
    const saved = tensors.filter(({ of }) => hasParameters || of === "optimizer");
    writeShard(folder, { tensors: saved, numbers }, shard, sink);
  });
}

/** Puts parameters and optimizer back to what they were, to the bit. `others` are values of parameters that are stored elsewhere. */
export function loadOptimizer(
  strategy: Strategy,
  optimizer: Optimizer,
  folder: string,
  others: ReadonlyMap<string, Tensor> = new Map(),
): void {
  readShards(folder, (saved) =>
    strategy.restore(optimizer, {
      ...saved,
      parameters: new Set([...others.keys(), ...saved.parameters]),
      readParameter: (name, part) =>
        saved.parameters.has(name) ? saved.readParameter(name, part) : cutPart(others.get(name)!, part),
    }),
  );
}

/** A critic that one rank has whole is written as a model; one that ranks have parts of, with what its optimizer knows. */
export function saveCritic(
  strategy: Strategy,
  { model, head, optimizer }: TrainedCritic,
  folder: string,
  sink: FileSink,
): void {
  const { shard, isFirst } = strategy;
  saveOptimizer(strategy, optimizer, folder, sink, { hasParameters: shard.count > 1 });
  if (shard.count > 1 || !isFirst) return;
  saveCausalLm(model, folder, { sink });
  model.runner.withWeights(null, () => saveValueHead(head, folder, sink));
}

export function loadCritic(strategy: Strategy, { model, optimizer }: TrainedCritic, folder: string): void {
  if (!existsSync(join(folder, valueHeadFile))) {
    loadOptimizer(strategy, optimizer, folder);
    return;
  }
  const saved = loadCausalLm(folder, { dtype: model.embedding.dtype });
  const savedHead = new ValueHead(model.config.width);
  loadValueHead(savedHead, folder);
  const values = [...withPrefix("model", saved.namedParameters()), ...withPrefix("head", savedHead.namedParameters())];
  loadOptimizer(strategy, optimizer, folder, new Map(values));
  saved.dispose();
  savedHead.dispose();
}
