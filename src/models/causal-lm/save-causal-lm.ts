/** Models to files, in the layout that Hugging Face and every other tool load. */

import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { replaceFileSync } from "../../files/replace-file.ts";
import { bytesOf } from "../../torch/dtype.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { defaultMaxShardBytes, planShards } from "../formats/safetensors/plan-shards.ts";
import { shardedIndexFileName, writeShardedIndex } from "../formats/safetensors/sharded-index.ts";
import { writeSafetensors } from "../formats/safetensors/write-safetensors.ts";
import { tensorSource } from "../formats/tensor-files.ts";
import type { CausalLm } from "./causal-lm.ts";
import { toHuggingFaceConfig } from "./config.ts";
import { mergedWeights } from "./merged-weights.ts";
import { namedWeights } from "./weight-names.ts";

export interface SaveOptions {
  /** Files to write beside the weights, such as the tokenizer's. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
  readonly maxShardBytes?: number;
  /** Whether LoRA adapters are merged into the saved weights. Default false: the base weights are saved without them. */
  readonly isMerged?: boolean;
}

/**
 * Writes config.json, the weights and `files` to a folder, replacing a model that is there. To save adapters alone, use saveLora.
 */
export function saveCausalLm(model: CausalLm, folder: string, options: SaveOptions = {}): void {
  mkdirSync(folder, { recursive: true });
  const written = tensorScope(() => writeWeights(model, folder, options));
  removeOldWeights(folder, written);
  const { dtype } = model.embedding;
  const stored = dtype === "bfloat16" || dtype === "float16" ? dtype : "float32";
  writeText(join(folder, "config.json"), toHuggingFaceConfig({ ...model.config, dtype: stored }));
  for (const [name, bytes] of options.files ?? []) replaceFileSync(join(folder, name), (append) => append(bytes));
}

/** The names of the files written. */
function writeWeights(
  model: CausalLm,
  folder: string,
  { maxShardBytes = defaultMaxShardBytes, isMerged = false }: SaveOptions,
): string[] {
  const values = isMerged ? mergedWeights(model) : ownWeights(model);
  const sizes = [...values].map(([name, value]) => ({ name, byteLength: value.numel * bytesOf(value.dtype) }));
  const { shards, index } = planShards(sizes, maxShardBytes);
  for (const { fileName, tensorNames } of shards) {
    writeSafetensors(
      join(folder, fileName),
      tensorNames.map((name) => tensorSource(name, values.get(name)!)),
    );
  }
  const shardNames = shards.map(({ fileName }) => fileName);
  if (index === null) return shardNames;
  writeShardedIndex(join(folder, shardedIndexFileName), index);
  return [...shardNames, shardedIndexFileName];
}

function ownWeights(model: CausalLm): ReadonlyMap<string, Tensor> {
  return new Map(namedWeights(model).map(({ name, parameter, viewOf }) => [name, viewOf(parameter.detach())]));
}

/** A model.safetensors left beside an index would be loaded instead of the shards. */
function removeOldWeights(folder: string, written: readonly string[]): void {
  const ours = /^model(-\d{5}-of-\d{5})?\.safetensors$/;
  const isOld = (name: string) => (ours.test(name) || name === shardedIndexFileName) && !written.includes(name);
  for (const name of readdirSync(folder).filter(isOld)) rmSync(join(folder, name));
}

function writeText(path: string, value: unknown): void {
  replaceFileSync(path, (append) => append(new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`)));
}
