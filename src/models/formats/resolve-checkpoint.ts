/**
 * Finds the tensors of a Hugging Face checkpoint: a folder (or one .safetensors file) in, the place of every tensor out.
 *
 * Only headers are read. What comes back is complete: every file named by an index is there, and every tensor is where the index says.
 */

import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { nearestName } from "../../errors/nearest-name.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { SafetensorsDtype } from "./safetensors/safetensors-dtype.ts";
import { readSafetensorsHeader, type SafetensorsHeader } from "./safetensors/safetensors-header.ts";
import { readShardedIndex, shardedIndexFileName } from "./safetensors/sharded-index.ts";
import { showName } from "./show-name.ts";

/** The file and position of one tensor. `byteOffset` counts from the start of the file. */
interface TensorPlace {
  readonly path: string;
  readonly dtype: SafetensorsDtype;
  readonly shape: readonly number[];
  readonly byteOffset: number;
  readonly byteLength: number;
  readonly isAligned: boolean;
}

/** A checkpoint on disk. */
export interface ResolvedCheckpoint {
  /** The folder or file that was asked for. */
  readonly path: string;
  /** Every file with tensors, in name order. */
  readonly files: readonly string[];
  /** File by file, and in each in the order of the bytes, so reading in this order never seeks back. */
  readonly tensors: ReadonlyMap<string, TensorPlace>;
}

/**
 * Resolves a folder or a single .safetensors file.
 * In a folder with both, `model.safetensors` wins over the index, as in transformers.
 */
export function resolveCheckpoint(path: string): ResolvedCheckpoint {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    throw new RerollError("CHECKPOINT_NOT_FOUND", `Checkpoint ${path} does not exist. Check the path.`, { path });
  }
  if (!found.isDirectory()) return resolveFile(path, path);
  if (existsSync(join(path, singleFileName))) return resolveFile(path, join(path, singleFileName));
  if (existsSync(join(path, shardedIndexFileName))) return resolveShards(path);
  throw noWeights(path);
}

/** The place of a tensor, or an error that names the nearest one the checkpoint has. */
export function locateTensor(checkpoint: ResolvedCheckpoint, name: string): TensorPlace {
  const place = checkpoint.tensors.get(name);
  if (place !== undefined) return place;
  throw new RerollError(
    "TENSOR_NOT_FOUND",
    `Checkpoint ${checkpoint.path} has no weight ${showName(name)}.${suggestNearest(name, checkpoint.tensors.keys())}`,
    { checkpoint: checkpoint.path, name },
  );
}

const singleFileName = "model.safetensors";

function resolveFile(path: string, file: string): ResolvedCheckpoint {
  return { path, files: [file], tensors: new Map(placesIn(file, readSafetensorsHeader(file))) };
}

function resolveShards(folder: string): ResolvedCheckpoint {
  const { weightMap } = readShardedIndex(join(folder, shardedIndexFileName));
  const shards = [...new Set(weightMap.values())].sort();
  checkAllPresent(folder, shards);
  const headers = new Map(shards.map((shard) => [shard, readSafetensorsHeader(join(folder, shard))]));
  for (const [name, shard] of weightMap) checkListed(name, shard, headers);
  for (const [shard, header] of headers) checkUnlisted(shard, header, weightMap);
  const places = [...headers].flatMap(([shard, header]) => [...placesIn(join(folder, shard), header)]);
  return { path: folder, files: shards.map((shard) => join(folder, shard)), tensors: new Map(places) };
}

function checkAllPresent(folder: string, shards: readonly string[]): void {
  const missing = shards.filter((shard) => !existsSync(join(folder, shard)));
  if (missing.length === 0) return;
  throw new RerollError(
    "CHECKPOINT_BROKEN",
    `Checkpoint ${folder} lacks ${missing.length} of the ${shards.length} files that ${shardedIndexFileName} names: ` +
      `${missing.slice(0, 5).join(", ")}${missing.length > 5 ? ", ..." : ""}. Download them into the same folder.`,
    { folder, missing },
  );
}

function checkListed(name: string, shard: string, headers: ReadonlyMap<string, SafetensorsHeader>): void {
  const tensors = headers.get(shard)?.tensors;
  if (tensors?.has(name)) return;
  const elsewhere = [...headers].find(([, header]) => header.tensors.has(name))?.[0];
  const hint =
    elsewhere === undefined ? suggestNearest(name, tensors?.keys() ?? []) : ` The tensor is in ${showName(elsewhere)}.`;
  throw new RerollError(
    "CHECKPOINT_BROKEN",
    `${shardedIndexFileName} says that tensor ${showName(name)} is in ${showName(shard)}, which does not hold it.${hint} ` +
      "The index and the files are of different checkpoints; download both again.",
    { name, shard },
  );
}

function checkUnlisted(shard: string, header: SafetensorsHeader, weightMap: ReadonlyMap<string, string>): void {
  for (const name of header.tensors.keys()) {
    if (weightMap.get(name) === shard) continue;
    throw new RerollError(
      "CHECKPOINT_BROKEN",
      `${showName(shard)} holds tensor ${showName(name)}, which ${shardedIndexFileName} does not list there. ` +
        "The index and the files are of different checkpoints; download both again.",
      { name, shard },
    );
  }
}

function* placesIn(path: string, { tensors, dataOffset }: SafetensorsHeader): Iterable<[string, TensorPlace]> {
  for (const [name, { dtype, shape, start, end, isAligned }] of tensors) {
    yield [name, { path, dtype, shape, byteOffset: dataOffset + start, byteLength: end - start, isAligned }];
  }
}

function suggestNearest(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === undefined ? "" : ` Nearest name in the file: ${showName(nearest)}.`;
}

function noWeights(folder: string): RerollError {
  const others = readdirSync(folder).filter((name) => /\.(safetensors|bin|pt|pth|gguf)$/.test(name));
  const got = others.length === 0 ? "It holds no weight files." : `It holds ${others.slice(0, 5).join(", ")}.`;
  return new RerollError(
    "CHECKPOINT_NOT_FOUND",
    `Checkpoint ${folder} has neither ${singleFileName} nor ${shardedIndexFileName}. ${got} ` +
      "Give a folder in Hugging Face layout, or the path of one .safetensors file.",
    { folder, others },
  );
}
