import { expect, test } from "vitest";
import { clusterCutFor } from "./paged-cluster-kernel.ts";

test("a row has eight blocks where the processors hold as many, and fewer where there are more rows", () => {
  const clusters = [1, 14, 15, 28, 29, 64].map((rows) => clusterCutFor(rows, 1024, 64)?.cluster);
  expect(clusters).toEqual([8, 8, 4, 4, 2, 2]);
});

test("a warp has two tiles on their way, and three where two blocks walk a row of small heads", () => {
  const depths = [4, 20, 60].map((rows) => [64, 128].map((headSize) => clusterCutFor(rows, 1024, headSize)?.depth));
  expect(depths).toEqual([
    [2, 2],
    [2, 2],
    [3, 2],
  ]);
});

test("many rows, long rows and wide heads are left to the other kernels", () => {
  expect([clusterCutFor(65, 1024, 64), clusterCutFor(2, 1024, 256)]).toEqual([null, null]);
  const longest = (rows: number) => [1536, 3072, 6144, 8192].filter((tokens) => clusterCutFor(rows, tokens, 64)).at(-1);
  expect([longest(64), longest(28), longest(14)]).toEqual([1536, 3072, 6144]);
});

test("blocks fit beside one of a product with 200 KB of shared memory", () => {
  for (const headSize of [64, 128]) {
    for (const rows of [1, 20, 60]) {
      const { cluster, warps } = clusterCutFor(rows, 1024, headSize)!;
      const sums = warps * 8 * (17 * 16 + 8);
      // Up to eight heads of a group: pieces of the result, best scores and masses; the new key and value.
      const parts = cluster * (Math.ceil((2 * headSize) / cluster) * 16 + 8 * 8) + 4 * headSize;
      // A processor has 228 KB, of which each block takes one for itself; a product has barriers and factors too.
      expect(sums + parts + 1024).toBeLessThanOrEqual((228 - 201) * 1024 - 512);
    }
  }
});
