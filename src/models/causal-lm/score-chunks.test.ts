import { expect, test } from "vitest";
import { empty } from "../../torch/create.ts";
import { mapChunks } from "./score-chunks.ts";

/** The pieces of so many tokens on a device, as [start, length]. */
function piecesOf(total: number, size: number, device: string): number[][] {
  const x = empty([total, 1], { device });
  let start = 0;
  return mapChunks(x, size, (part) => {
    const length = part(x).size(0);
    start += length;
    return [start - length, length];
  });
}

test("on the CPU pieces are as equal as they can be", () => {
  expect(piecesOf(10, 4, "cpu")).toEqual([
    [0, 3],
    [3, 3],
    [6, 4],
  ]);
  expect(piecesOf(3000, 1400, "cpu").map(([, length]) => length)).toEqual([1000, 1000, 1000]);
});

test("on other devices large pieces begin at multiples of 128 tokens, and small ones anywhere", () => {
  expect(piecesOf(16_384, 5486, "meta")).toEqual([
    [0, 5376],
    [5376, 5504],
    [10_880, 5504],
  ]);
  expect(piecesOf(16_384, 8192, "meta").map(([, length]) => length)).toEqual([8192, 8192]);
  expect(piecesOf(1001, 500, "meta").map(([, length]) => length)).toEqual([333, 334, 334]);
  expect(piecesOf(0, 500, "meta").map(([, length]) => length)).toEqual([0]);
});
