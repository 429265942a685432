import { expect, test } from "vitest";
import { tensor } from "../create.ts";
import { Generator } from "../random.ts";
import { Embedding } from "./embedding.ts";

const generator = new Generator(0);

test("embedding looks rows up and sums the gradients of repeated ids", () => {
  const embedding = new Embedding(3, 2, { generator });
  embedding.loadStateDict(
    new Map([
      [
        "weight",
        tensor([
          [1, 2],
          [3, 4],
          [5, 6],
        ]),
      ],
    ]),
  );
  const rows = embedding.forward(
    tensor(
      [
        [2, 0],
        [2, 2],
      ],
      { dtype: "int64" },
    ),
  );
  expect(rows.shape).toEqual([2, 2, 2]);
  expect(rows.toArray()).toEqual([5, 6, 1, 2, 5, 6, 5, 6]);
  rows.sum().backward();
  expect(embedding.weight.grad!.toArray()).toEqual([1, 1, 0, 0, 3, 3]);
});

test("embedding refuses ids that are not integers", () => {
  const embedding = new Embedding(3, 2, { generator });
  expect(() => embedding.forward(tensor([1]))).toThrow(/ids of type float32. Ids must be int64 or int32/);
});

test("embedding refuses an id outside of the table", () => {
  const embedding = new Embedding(3, 2, { generator });
  expect(() => embedding.forward(tensor([3], { dtype: "int64" }))).toThrow(/index out of range/);
});
