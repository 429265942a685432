/**
 * A trainer's whole state in a folder: weights in Hugging Face layout, optimizer and counters beside them.
 *
 * Written to a new folder by whoever calls it; loading it gives the same numbers as never having stopped.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loraAdapters } from "../models/causal-lm/lora.ts";
import { saveLora } from "../models/causal-lm/lora-files.ts";
import { saveCausalLm } from "../models/causal-lm/save-causal-lm.ts";
import { loadValueHead, saveValueHead } from "../models/causal-lm/value-head.ts";
import { resolveCheckpoint } from "../models/formats/resolve-checkpoint.ts";
import { writeSafetensors } from "../models/formats/safetensors/write-safetensors.ts";
import { MappedCheckpoint, tensorSource } from "../models/formats/tensor-files.ts";
import { noGrad } from "../torch/autograd.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { TrainedCritic } from "./token-trainer.ts";

/** Weights and tokenizer, as any other tool loads them. With adapters: the adapters alone, as PEFT stores them, with the folder of their base. */
export function saveModel(
  model: CausalLm,
  folder: string,
  files: ReadonlyMap<string, Uint8Array>,
  baseFolder: string,
): void {
  if (loraAdapters(model).size > 0) saveLora(model, folder, { baseModel: resolve(baseFolder) });
  else saveCausalLm(model, folder, { files });
}

/** The parameters that learn, by name, and everything about them that the optimizer knows. */
export function saveOptimizer(optimizer: Optimizer, parameters: ReadonlyMap<string, Tensor>, folder: string): void {
  mkdirSync(folder, { recursive: true });
  const { tensors, numbers } = optimizer.stateDict();
  tensorScope(() => {
    const trained = [...parameters].map(([name, value]) => tensorSource(`parameter.${name}`, value.detach()));
    const state = [...tensors].map(([name, value]) => tensorSource(name, value));
    writeSafetensors(join(folder, "optimizer.safetensors"), [...trained, ...state]);
  });
  writeFileSync(join(folder, "optimizer.json"), `${JSON.stringify(numbers)}\n`);
}

/** Puts parameters and optimizer back to what they were, to the bit. */
export function loadOptimizer(optimizer: Optimizer, parameters: ReadonlyMap<string, Tensor>, folder: string): void {
  const numbers = readNumbers(join(folder, "optimizer.json"));
  const resolved = resolveCheckpoint(join(folder, "optimizer.safetensors"));
  const mapped = new MappedCheckpoint(resolved);
  try {
    noGrad(() =>
      tensorScope(() => {
        for (const [name, parameter] of parameters) parameter.copy_(mapped.read(`parameter.${name}`));
        const names = [...resolved.tensors.keys()].filter((name) => !name.startsWith("parameter."));
        optimizer.loadStateDict({ tensors: new Map(names.map((name) => [name, mapped.read(name)])), numbers });
      }),
    );
  } finally {
    mapped.dispose();
  }
}

export function saveCritic({ model, head, optimizer }: TrainedCritic, folder: string): void {
  saveCausalLm(model, folder);
  saveValueHead(head, folder);
  saveOptimizer(optimizer, new Map(), folder);
}

export function loadCritic({ model, head, optimizer }: TrainedCritic, folder: string): void {
  const { device, dtype } = model.embedding;
  const saved = loadCausalLm(folder, { device, dtype });
  model.loadStateDict(saved.stateDict());
  saved.dispose();
  loadValueHead(head, folder);
  loadOptimizer(optimizer, new Map(), folder);
}

function readNumbers(path: string): Record<string, number> {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as Record<string, number>;
  } catch (cause) {
    throw new RerollError("CHECKPOINT_BROKEN", `${path} cannot be read: ${String(cause)}.`, { path }, { cause });
  }
}
