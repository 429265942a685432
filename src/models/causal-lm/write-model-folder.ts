/** A folder in the layout that Hugging Face and every other tool load: config.json, safetensors, and files beside them. */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { bytesOf } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type FileSink, toDisk } from "../formats/file-sink.ts";
import { defaultMaxShardBytes, planShards } from "../formats/safetensors/plan-shards.ts";
import { shardedIndexFileName, writeShardedIndex } from "../formats/safetensors/sharded-index.ts";
import { tensorSource } from "../formats/tensor-files.ts";

interface FolderOptions {
  /** Files to write beside the weights, such as the tokenizer's. */
  readonly files?: ReadonlyMap<string, Uint8Array>;
  readonly maxShardBytes?: number;
  /** Takes the files. Default: they are written at once. */
  readonly sink?: FileSink;
}

/** Writes weights by name, `config` as config.json, and `files`, replacing a model that is there. */
export function writeModelFolder(
  folder: string,
  weights: ReadonlyMap<string, Tensor>,
  config: Readonly<Record<string, unknown>>,
  { files = new Map(), maxShardBytes = defaultMaxShardBytes, sink = toDisk }: FolderOptions,
): void {
  mkdirSync(folder, { recursive: true });
  removeOldWeights(folder, writeWeights(folder, weights, maxShardBytes, sink));
  const text = new TextEncoder().encode(`${withFloats(JSON.stringify(config, null, 2))}\n`);
  sink.bytes(join(folder, "config.json"), text);
  for (const [name, bytes] of files) sink.bytes(join(folder, name), bytes);
}

/** Keys that transformers takes as floats: it refuses 7 where it expects 7.0, which JSON.stringify does not tell apart. */
const floatKeys = [
  "rms_norm_eps",
  "rope_theta",
  "rope_local_base_freq",
  "partial_rotary_factor",
  "initializer_range",
  "attn_logit_softcapping",
  "final_logit_softcapping",
  "swiglu_limit",
  "swiglu_alpha",
];

function withFloats(json: string): string {
  return json.replace(new RegExp(`("(?:${floatKeys.join("|")})": \\d+)(?=[,\\n])`, "g"), "$1.0");
}

/** The names of the files written. */
function writeWeights(
  folder: string,
  weights: ReadonlyMap<string, Tensor>,
  maxShardBytes: number,
  sink: FileSink,
): string[] {
  const sizes = [...weights].map(([name, value]) => ({ name, byteLength: value.numel * bytesOf(value.dtype) }));
  const { shards, index } = planShards(sizes, maxShardBytes);
  for (const { fileName, tensorNames } of shards) {
    sink.tensors(
      join(folder, fileName),
      tensorNames.map((name) => tensorSource(name, weights.get(name)!)),
    );
  }
  const shardNames = shards.map(({ fileName }) => fileName);
  if (index === null) return shardNames;
  writeShardedIndex(join(folder, shardedIndexFileName), index, (path, bytes) => sink.bytes(path, bytes));
  return [...shardNames, shardedIndexFileName];
}

/** A model.safetensors left beside an index would be loaded instead of the shards. */
function removeOldWeights(folder: string, written: readonly string[]): void {
  const ours = /^model(-\d{5}-of-\d{5})?\.safetensors$/;
  const isOld = (name: string) => (ours.test(name) || name === shardedIndexFileName) && !written.includes(name);
  for (const name of readdirSync(folder).filter(isOld)) rmSync(join(folder, name));
}
