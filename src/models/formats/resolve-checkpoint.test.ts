import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { locateTensor, resolveCheckpoint } from "./resolve-checkpoint.ts";
import { planShards } from "./safetensors/plan-shards.ts";
import { shardedIndexFileName, writeShardedIndex } from "./safetensors/sharded-index.ts";
import { writeSafetensors } from "./safetensors/write-safetensors.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "reroll-resolve-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const source = (name: string, value: number) => ({
  name,
  dtype: "U8" as const,
  shape: [1],
  bytes: () => Uint8Array.of(value),
});

/** Two shards: embed with 7, then head with 9. */
function writeTwoShards() {
  const plan = planShards(
    [
      { name: "embed", byteLength: 1 },
      { name: "head", byteLength: 1 },
    ],
    1,
  );
  writeSafetensors(join(folder, plan.shards[0]!.fileName), [source("embed", 7)]);
  writeSafetensors(join(folder, plan.shards[1]!.fileName), [source("head", 9)]);
  writeShardedIndex(join(folder, shardedIndexFileName), plan.index!);
}

function byteOf(name: string): number | undefined {
  const place = locateTensor(resolveCheckpoint(folder), name);
  return readFileSync(place.path)[place.byteOffset];
}

test("tensors of a single file are found, by folder or by file", () => {
  writeSafetensors(join(folder, "model.safetensors"), [source("embed", 5), source("head", 6)]);
  expect(byteOf("head")).toBe(6);
  expect(resolveCheckpoint(join(folder, "model.safetensors")).tensors.size).toBe(2);
});

test("tensors of a sharded checkpoint are found in their files", () => {
  writeTwoShards();
  expect(byteOf("embed")).toBe(7);
  expect(byteOf("head")).toBe(9);
  expect(resolveCheckpoint(folder).files).toEqual([
    join(folder, "model-00001-of-00002.safetensors"),
    join(folder, "model-00002-of-00002.safetensors"),
  ]);
});

test("a missing shard is named", () => {
  writeTwoShards();
  rmSync(join(folder, "model-00002-of-00002.safetensors"));
  expect(() => resolveCheckpoint(folder)).toThrow(
    /lacks 1 of the 2 files that model.safetensors.index.json names: model-00002-of-00002.safetensors. Download/,
  );
});

test("a tensor that its shard does not hold is named with the nearest one", () => {
  writeTwoShards();
  writeSafetensors(join(folder, "model-00002-of-00002.safetensors"), [source("heads", 9)]);
  expect(() => resolveCheckpoint(folder)).toThrow(
    /says that tensor "head" is in "model-00002-of-00002.safetensors", which does not hold it. Nearest name in the file: "heads"/,
  );
});

test("a tensor that lies in another shard than the index says is reported with the right one", () => {
  writeTwoShards();
  writeSafetensors(join(folder, "model-00001-of-00002.safetensors"), [source("embed", 7), source("head", 9)]);
  writeSafetensors(join(folder, "model-00002-of-00002.safetensors"), [source("other", 9)]);
  expect(() => resolveCheckpoint(folder)).toThrow(/The tensor is in "model-00001-of-00002.safetensors"/);
});

test("a tensor that the index does not list is reported", () => {
  writeTwoShards();
  writeSafetensors(join(folder, "model-00002-of-00002.safetensors"), [source("head", 9), source("extra", 1)]);
  expect(() => resolveCheckpoint(folder)).toThrow(
    /holds tensor "extra", which model.safetensors.index.json does not list/,
  );
});

test("a weight that is nowhere is reported with the nearest name", () => {
  writeTwoShards();
  expect(() => locateTensor(resolveCheckpoint(folder), "lm_head")).toThrow(
    `Checkpoint ${folder} has no weight "lm_head". Nearest name in the file: "head".`,
  );
});

test("a folder without weights says what it holds", () => {
  writeFileSync(join(folder, "pytorch_model.bin"), "");
  expect(() => resolveCheckpoint(folder)).toThrow(/has neither model.safetensors nor .* It holds pytorch_model.bin/);
  expect(() => resolveCheckpoint(join(folder, "none"))).toThrow(/none does not exist/);
});
