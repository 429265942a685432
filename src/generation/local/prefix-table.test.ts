import fc from "fast-check";
import { expect, test } from "vitest";
import { PrefixKeys } from "./prefix-keys.ts";
import { PrefixTable } from "./prefix-table.ts";

const NUM_BLOCKS = 6;

/** More names than blocks. */
const keys = new PrefixKeys();
for (let i = 0; i < 12; i++) keys.push(Int32Array.of(i), 0, 1, 0);

const changes = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant("add" as const), block: fc.nat(5), index: fc.nat(11) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant("delete" as const), block: fc.nat(5) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("clear" as const) }) },
  ),
  { maxLength: 40 },
);

test("a table finds what a Map from names to blocks would find", () => {
  fc.assert(
    fc.property(changes, (list) => {
      const table = new PrefixTable(NUM_BLOCKS);
      const expected = new Map<number, number>();
      for (const change of list) {
        if (change.kind === "clear") {
          table.clear();
          expected.clear();
        } else if (change.kind === "delete") {
          table.delete(change.block);
          for (const [index, block] of expected) if (block === change.block) expected.delete(index);
        } else if (!table.has(change.block) && !expected.has(change.index)) {
          table.add(change.block, keys, change.index);
          expected.set(change.index, change.block);
        }
        for (let index = 0; index < keys.length; index++) expect(table.find(keys, index)).toBe(expected.get(index));
        const held = new Set(expected.values());
        for (let block = 0; block < NUM_BLOCKS; block++) expect(table.has(block)).toBe(held.has(block));
      }
    }),
    { numRuns: 300, seed: 1 },
  );
});

test("a table of one block works", () => {
  const table = new PrefixTable(1);
  table.add(0, keys, 3);
  expect([table.find(keys, 3), table.find(keys, 4)]).toEqual([0, undefined]);
  table.delete(0);
  expect(table.find(keys, 3)).toBeUndefined();
});
