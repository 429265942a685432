import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseShardedIndex, readShardedIndex, writeShardedIndex } from "./sharded-index.ts";

test("an index is read back as it was written, sorted as Hugging Face does", () => {
  const folder = mkdtempSync(join(tmpdir(), "reroll-index-"));
  const path = join(folder, "model.safetensors.index.json");
  const weightMap = new Map([
    ["b", "model-00002-of-00002.safetensors"],
    ["a", "model-00001-of-00002.safetensors"],
  ]);
  writeShardedIndex(path, { totalSize: 12, weightMap });
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({
    metadata: { total_size: 12 },
    weight_map: { a: "model-00001-of-00002.safetensors", b: "model-00002-of-00002.safetensors" },
  });
  const index = readShardedIndex(path);
  expect(index.totalSize).toBe(12);
  expect([...index.weightMap.keys()]).toEqual(["a", "b"]);
  rmSync(folder, { recursive: true });
});

test("an index without metadata has no total size", () => {
  expect(parseShardedIndex('{"weight_map":{}}', "i.json").totalSize).toBeNull();
});

const lies: [string, string, RegExp][] = [
  ["is not JSON", "{", /it is not JSON/],
  ["is no object", "[]", /not a JSON object/],
  ["has no weight map", '{"weight_map":[]}', /no "weight_map" object/],
  [
    "leaves the folder",
    '{"weight_map":{"a":"../x.safetensors"}}',
    /tensor "a" is in "..\/x.safetensors", which is not a plain/,
  ],
  ["names no file", '{"weight_map":{"a":3}}', /is in "number"/],
  ["has a text as size", '{"metadata":{"total_size":"9"},"weight_map":{}}', /total_size is "9"/],
  ["nests without end", "[".repeat(1000), /nests more than 16 levels/],
];

test.each(lies)("an index that %s is refused", (_, text, message) => {
  expect(() => parseShardedIndex(text, "i.json")).toThrow(message);
  expect(() => parseShardedIndex(text, "i.json")).toThrow(expect.objectContaining({ code: "CHECKPOINT_BROKEN" }));
});
