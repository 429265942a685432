import { expect, test } from "vitest";
import { searchOrder } from "./adamw-kernel.ts";

test("a search by halves meets the middle first, then those of both halves", () => {
  expect(searchOrder([10, 20, 30, 40, 50, 60, 70])).toEqual([0, 40, 20, 60, 10, 30, 50, 70]);
});

test("going right where the number is larger counts those below it", () => {
  const sorted = Array.from({ length: 255 }, (_, i) => 2 * i);
  const order = searchOrder(sorted);
  const below = (x: number) => {
    let node = 1;
    for (let level = 0; level < 8; level++) node = 2 * node + (order[node]! < x ? 1 : 0);
    return node - 256;
  };
  expect([-5, 0, 1, 200, 201, 508, 509].map(below)).toEqual([0, 0, 1, 100, 101, 254, 255]);
});
