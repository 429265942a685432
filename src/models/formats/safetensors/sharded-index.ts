/**
 * `model.safetensors.index.json`: which file of a sharded checkpoint holds which tensor.
 */

import { basename } from "node:path";
import { jsonDepth } from "../../../errors/json-depth.ts";
import { RerollError } from "../../../errors/reroll-error.ts";
import { replaceFileSync } from "../../../files/replace-file.ts";
import { readExactly } from "../read-exactly.ts";
import { showName } from "../show-name.ts";
import { withOpenFile } from "../with-open-file.ts";
import { maxSafetensorsHeaderBytes } from "./safetensors-header.ts";

/** The index. `totalSize` is the sum of all tensors in bytes, null where the file does not say. */
export interface ShardedIndex {
  readonly totalSize: number | null;
  /** File name, without a folder, by tensor name. */
  readonly weightMap: ReadonlyMap<string, string>;
}

/** The name Hugging Face gives the index of a sharded checkpoint. */
export const shardedIndexFileName = "model.safetensors.index.json";

/** Reads and checks an index on disk. */
export function readShardedIndex(path: string): ShardedIndex {
  const text = withOpenFile(path, (descriptor, size) => {
    if (size > maxSafetensorsHeaderBytes) {
      throw invalidIndex(basename(path), `it has ${size} bytes and at most ${maxSafetensorsHeaderBytes} are allowed`);
    }
    const bytes = new Uint8Array(size);
    readExactly(descriptor, bytes, 0, path);
    return new TextDecoder().decode(bytes);
  });
  return parseShardedIndex(text, basename(path));
}

/** Parses and checks the text of an index. A file name with a folder in it is refused: shards lie beside their index. */
export function parseShardedIndex(text: string, fileName: string): ShardedIndex {
  const json = parseJson(text, fileName);
  if (!isRecord(json)) throw invalidIndex(fileName, "it is not a JSON object");
  const { metadata, weight_map: weights } = json;
  if (!isRecord(weights)) throw invalidIndex(fileName, 'it has no "weight_map" object');
  const weightMap = new Map<string, string>();
  for (const [name, shard] of Object.entries(weights)) {
    if (typeof shard !== "string" || !shardNamePattern.test(shard)) {
      const got = showName(typeof shard === "string" ? shard : typeof shard);
      throw invalidIndex(
        fileName,
        `tensor ${showName(name)} is in ${got}, which is not a plain *.safetensors file name`,
      );
    }
    weightMap.set(name, shard);
  }
  return { totalSize: readTotalSize(metadata, fileName), weightMap };
}

/** Writes an index, complete or not at all; `put` takes it elsewhere. */
export function writeShardedIndex(
  path: string,
  { totalSize, weightMap }: ShardedIndex,
  put: (path: string, bytes: Uint8Array) => void = putFile,
): void {
  const sorted = [...weightMap].sort(([left], [right]) => (left < right ? -1 : 1));
  const metadata = totalSize === null ? {} : { total_size: totalSize };
  const json = JSON.stringify({ metadata, weight_map: Object.fromEntries(sorted) }, null, 2);
  put(path, new TextEncoder().encode(`${json}\n`));
}

function putFile(path: string, bytes: Uint8Array): void {
  replaceFileSync(path, (append) => append(bytes));
}

/** Letters, digits and the usual marks: no separator of any system and no leading dot, so it cannot leave the folder. */
const shardNamePattern = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,200}\.safetensors$/;

/** An index nests two levels; the rest is room for metadata of other tools. */
const maxDepth = 16;

/** Some writers leave the size out and old ones write it as 123.0, which JSON does not tell apart from 123. */
function readTotalSize(metadata: unknown, fileName: string): number | null {
  if (!isRecord(metadata)) return null;
  const { total_size: totalSize } = metadata;
  if (totalSize === undefined || totalSize === null) return null;
  if (typeof totalSize !== "number" || !Number.isSafeInteger(totalSize) || totalSize < 0) {
    throw invalidIndex(fileName, `metadata.total_size is ${showName(String(totalSize))} and must be a number of bytes`);
  }
  return totalSize;
}

function parseJson(text: string, fileName: string): unknown {
  if (jsonDepth(text) > maxDepth) throw invalidIndex(fileName, `its JSON nests more than ${maxDepth} levels deep`);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalidIndex(fileName, "it is not JSON", cause);
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function invalidIndex(fileName: string, what: string, cause?: unknown): RerollError {
  return new RerollError(
    "CHECKPOINT_BROKEN",
    `${fileName} is not a valid index of a sharded checkpoint: ${what}. Download or save it again.`,
    { fileName },
    { cause },
  );
}
