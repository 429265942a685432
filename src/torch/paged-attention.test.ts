import fc from "fast-check";
import { expect, test } from "vitest";
import { randn, tensor } from "./create.ts";
import { type PagedQueries, type PagedRun, pagedAttention, pagedAttentionReference } from "./paged-attention.ts";
import { Generator } from "./random.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

const shape = fc.record({
  groups: fc.integer({ min: 1, max: 3 }),
  headsPerGroup: fc.integer({ min: 1, max: 4 }),
  headSize: fc.integer({ min: 1, max: 20 }).map((half) => 2 * half),
  blockSize: fc.integer({ min: 1, max: 7 }),
  window: fc.option(fc.integer({ min: 1, max: 9 })),
  softCap: fc.constantFrom(null, 0.5, 3),
  scale: fc.constantFrom(null, 0.7),
  hasSinks: fc.boolean(),
  runs: fc.array(fc.record({ seen: fc.integer({ min: 0, max: 20 }), numQueries: fc.integer({ min: 1, max: 6 }) }), {
    minLength: 1,
    maxLength: 5,
  }),
  seed: fc.integer({ min: 0, max: 1000 }),
});

test("one pass gives what gathering the blocks gives, for all shapes, windows, head groups, soft caps and sinks", () => {
  fc.assert(
    fc.property(
      shape,
      ({ groups, headsPerGroup, headSize, blockSize, window, softCap, scale, hasSinks, runs, seed }) => {
        const gap = tensorScope(() => {
          const generator = new Generator(seed);
          const rows = runs.map(({ seen, numQueries }) => ({ length: seen + numQueries, numQueries }));
          const numBlocks = rows.map(({ length }) => Math.ceil(length / blockSize)).reduce((sum, n) => sum + n, 0) + 1;
          const cacheShape = [numBlocks, blockSize, groups, headSize];
          const [keys, values] = [randn(cacheShape, { generator }), randn(cacheShape, { generator })];
          const numTokens = rows.reduce((sum, { numQueries }) => sum + numQueries, 0);
          const q_SHK = randn([numTokens, groups * headsPerGroup, headSize], { generator });
          const sinks_H = hasSinks ? randn([groups * headsPerGroup], { generator }) : null;
          const scoring = { window, softCap, scale, sinks_H };
          const { queries, paged } = place(rows, blockSize, numBlocks);
          const fast = pagedAttention(q_SHK, { keys, values, ...queries, ...scoring });
          const plain = pagedAttentionReference(q_SHK, keys, values, paged, scoring);
          generator.dispose();
          return fast.sub(plain).abs().max().item();
        });
        expect(gap).toBeLessThan(1e-5);
      },
    ),
    { numRuns: 60, seed: 1 },
  );
});

test("a query alone with its own key returns its value", () => {
  const out = pagedAttention(float32([1, 2], [1, 1, 2]), {
    ...cache([9, 9, 5, 6], [9, 9, 7, 8]),
    table_RM: int32([1], [1, 1]),
    rows_S: int32([0]),
    positions_S: int32([0]),
    window: null,
  });
  expect(out.toArray()).toEqual([7, 8]);
});

const good: PagedQueries = {
  ...cache([1, 2, 3, 4], [1, 2, 3, 4]),
  table_RM: int32([0, 1], [1, 2]),
  rows_S: int32([0]),
  positions_S: int32([1]),
  window: null,
};

test.each<[string, Partial<PagedQueries>, RegExp]>([
  ["a block past the cache", { table_RM: int32([0, 2], [1, 2]) }, /a block number is outside the cache/],
  ["a negative block", { table_RM: int32([-1, 1], [1, 2]) }, /a block number is outside the cache/],
  ["a row past the table", { rows_S: int32([1]) }, /a row index is outside the block table/],
  ["a negative row", { rows_S: int32([-1]) }, /a row index is outside the block table/],
  ["a position past the table", { positions_S: int32([2]) }, /a position is outside the block table/],
  ["a negative position", { positions_S: int32([-1]) }, /a position is outside the block table/],
  ["two rows for one query", { rows_S: int32([0, 0]) }, /one entry per query/],
  ["positions that are floats", { positions_S: tensor([1]) }, /contiguous int32/],
  ["keys in another type", { keys: float32([1, 2, 3, 4], [2, 1, 1, 2]).to("float64") }, /contiguous float32/],
  ["values of another size", { values: float32([1, 2], [1, 1, 1, 2]) }, /do not fit together/],
])("%s is an error, and no read of foreign memory", (_what, change, message) => {
  expect(() => pagedAttention(float32([1, 2], [1, 1, 2]), { ...good, ...change })).toThrow(message);
});

/** Rows in blocks from the end of the cache to its start, so that order in the cache is not order in the row. */
function place(rows: readonly { length: number; numQueries: number }[], blockSize: number, numBlocks: number) {
  let next = numBlocks - 1;
  const tables = rows.map(({ length }) => Array.from({ length: Math.ceil(length / blockSize) }, () => next--));
  const width = Math.max(...tables.map((table) => table.length));
  const paged: PagedRun[] = rows.map(({ length, numQueries }, row) => {
    const table = tables[row]!;
    return { length, numQueries, blocks: tensor(Int32Array.from(table), [table.length], { dtype: "int64" }) };
  });
  const each = rows.flatMap(({ length, numQueries }, row) =>
    Array.from({ length: numQueries }, (_, i) => ({ row, position: length - numQueries + i })),
  );
  const queries = {
    table_RM: int32(
      tables.flatMap((table) => [...table, ...new Array<number>(width - table.length).fill(-1)]),
      [rows.length, width],
    ),
    rows_S: int32(each.map(({ row }) => row)),
    positions_S: int32(each.map(({ position }) => position)),
  };
  return { queries, paged };
}

/** Two blocks of one token with one head of two. */
function cache(keys: number[], values: number[]): { keys: Tensor; values: Tensor } {
  return { keys: float32(keys, [2, 1, 1, 2]), values: float32(values, [2, 1, 1, 2]) };
}

function int32(values: readonly number[], shape: readonly number[] = [values.length]): Tensor {
  return tensor(Int32Array.from(values), shape);
}

function float32(values: readonly number[], shape: readonly number[]): Tensor {
  return tensor(Float32Array.from(values), shape);
}
