import fc from "fast-check";
import { expect, test } from "vitest";
import { PrefixKeys, promptKey } from "./prefix-keys.ts";

/** The last name of a sequence with these tokens. */
function nameOf(tokens: readonly number[], { blockSize = 2, version = 0 } = {}): Int32Array {
  const keys = new PrefixKeys();
  for (let start = 0; start < tokens.length; start += blockSize) {
    keys.push(Int32Array.from(tokens), start, start + blockSize, version);
  }
  return keys.words.slice(4 * (keys.length - 1), 4 * keys.length);
}

test("a name depends on the tokens of its block, on all before them, on the version, and on nothing else", () => {
  const name = nameOf([1, 2, 3, 4]);
  expect(nameOf([1, 2, 3, 4])).toEqual(name);
  const others = [
    [1, 2, 3, 5],
    [1, 2, 4, 3],
    [2, 1, 3, 4],
    [3, 4],
    [1, 2],
    [3, 4, 1, 2],
    [1, 2, 3, 4, 0, 0],
  ];
  for (const other of others) expect(nameOf(other)).not.toEqual(name);
  for (const version of [1, 2 ** 32]) expect(nameOf([1, 2, 3, 4], { version })).not.toEqual(name);
});

test("a block is named alike wherever in the memory of a sequence its tokens stand", () => {
  const keys = new PrefixKeys();
  keys.push(Int32Array.of(9, 5, 6, 9), 1, 3, 0);
  expect(keys.words.slice(0, 4)).toEqual(nameOf([5, 6]));
});

test("names that are taken back or copied leave the others as they were", () => {
  const [keys, tokens] = [new PrefixKeys(), Int32Array.from({ length: 40 }, (_, i) => i)];
  for (let i = 0; i < 20; i++) keys.push(tokens, 2 * i, 2 * i + 2, 0);
  const copy = keys.copy();
  for (let i = 0; i < 15; i++) keys.pop();
  for (let i = 5; i < 20; i++) keys.push(tokens, 2 * i, 2 * i + 2, 0);
  expect(keys.words.slice(0, 80)).toEqual(copy.words.slice(0, 80));
  keys.push(tokens, 0, 2, 0);
  expect([keys.length, copy.length]).toEqual([21, 20]);
});

test("equal prompts have equal keys, and others have others", () => {
  expect(promptKey(Int32Array.of(1, 2))).toBe(promptKey(Int32Array.of(0, 1, 2).subarray(1)));
  const keys = [[], [0], [0, 0], [0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 2], [2, 1]].map((ids) =>
    promptKey(Int32Array.from(ids)),
  );
  expect(new Set(keys).size).toBe(keys.length);
});

test("a hundred thousand blocks that differ in few bits have as many names", () => {
  const names = new Set<string>();
  const tokens = new Int32Array(16);
  for (let i = 0; i < 100_000; i++) {
    tokens[i % 16] = 1 + (i >> 4);
    names.add(promptKey(tokens));
  }
  expect(names.size).toBe(100_000);
});

test("every bit of a token changes about half of the bits of the name", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(2 ** 31 - 1), { minLength: 16, maxLength: 16 }),
      fc.nat(15),
      fc.nat(30),
      (tokens, at, bit) => {
        const [one, other] = [tokens, tokens.with(at, tokens[at]! ^ (1 << bit))].map((all) =>
          nameOf(all, { blockSize: 16 }),
        ) as [Int32Array, Int32Array];
        let numDifferent = 0;
        one.forEach((word, i) => {
          for (let shift = 0; shift < 32; shift++) numDifferent += ((word ^ other[i]!) >> shift) & 1;
        });
        // Of 128 coins fewer than 28, or more than 100, show heads once in 10^10 tries.
        expect(Math.abs(numDifferent - 64)).toBeLessThan(37);
      },
    ),
    { numRuns: 500, seed: 1 },
  );
});
