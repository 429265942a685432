/**
 * Decides which tensors of a checkpoint share a file: sizes in, Hugging Face file names and the index out.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import { showName } from "../show-name.ts";
import type { ShardedIndex } from "./sharded-index.ts";

/** A file to write and the tensors that go into it, in order. */
interface PlannedShard {
  readonly fileName: string;
  readonly tensorNames: readonly string[];
}

/** A whole checkpoint to write. `index` is null when one file, `model.safetensors`, holds everything. */
interface ShardPlan {
  readonly shards: readonly PlannedShard[];
  readonly index: ShardedIndex | null;
}

/** The shard size that transformers 4 writes by default; other tools expect files of about this size. */
export const defaultMaxShardBytes = 5_000_000_000;

/**
 * Fills files in the given order, a new one when the next tensor would pass `maxShardBytes`.
 * A tensor larger than the limit gets a file of its own: tensors are never cut.
 */
export function planShards(
  tensors: readonly { readonly name: string; readonly byteLength: number }[],
  maxShardBytes: number = defaultMaxShardBytes,
): ShardPlan {
  if (!(maxShardBytes > 0)) {
    throw new RerollError("INVALID_ARGUMENT", `maxShardBytes must be above 0: got ${maxShardBytes}.`, {
      maxShardBytes,
    });
  }
  const groups: string[][] = [[]];
  const seen = new Set<string>();
  let shardBytes = 0;
  let totalSize = 0;
  for (const { name, byteLength } of tensors) {
    if (seen.has(name)) {
      throw new RerollError("INVALID_ARGUMENT", `Tensor ${showName(name)} is given twice. Names must be unique.`, {
        name,
      });
    }
    seen.add(name);
    if (shardBytes > 0 && shardBytes + byteLength > maxShardBytes) {
      groups.push([]);
      shardBytes = 0;
    }
    groups.at(-1)!.push(name);
    shardBytes += byteLength;
    totalSize += byteLength;
  }
  const shards = groups.map((tensorNames, index) => ({ fileName: shardFileName(index, groups.length), tensorNames }));
  if (shards.length === 1) return { shards, index: null };
  const weightMap = new Map(
    shards.flatMap((shard) => shard.tensorNames.map((name) => [name, shard.fileName] as const)),
  );
  return { shards, index: { totalSize, weightMap } };
}

function shardFileName(index: number, count: number): string {
  if (count === 1) return "model.safetensors";
  const number = String(index + 1).padStart(5, "0");
  return `model-${number}-of-${String(count).padStart(5, "0")}.safetensors`;
}
