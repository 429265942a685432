import { expect, test } from "vitest";
import { tensor } from "../torch/create.ts";
import { whiten } from "./whiten.ts";

const bool = (values: number[][]) => tensor(values, { dtype: "bool" });
const mask = bool([
  [1, 1, 0],
  [1, 0, 0],
]);

test("whitened values have mean 0 and variance 1 under the mask, and are 0 outside", () => {
  const whitened = whiten(
    tensor(
      [
        [1, 2, Number.NaN],
        [3, 7, 7],
      ],
      { dtype: "float64" },
    ),
    mask,
  );
  const expected = [-1, 0, 0, 1, 0, 0].map((value) => expect.closeTo(value, 6));
  expect(whitened.toArray()).toEqual(expected);
});

test("the mean can stay", () => {
  const whitened = whiten(
    tensor(
      [
        [1, 2, 9],
        [3, 9, 9],
      ],
      { dtype: "float64" },
    ),
    mask,
    { shiftMean: false },
  );
  expect(whitened.toArray()).toEqual([1, 2, 0, 3, 0, 0].map((value) => expect.closeTo(value, 6)));
});

test("equal values give 0", () => {
  expect(
    whiten(
      tensor([
        [5, 5, 5],
        [5, 5, 5],
      ]),
      mask,
    ).toArray(),
  ).toEqual([0, 0, 0, 0, 0, 0]);
});

test.each([{ tokens: [[0, 1, 0]] }, { tokens: [[0, 0, 0]] }])(
  "fewer than two loss tokens give 0: $tokens",
  ({ tokens }) => {
    expect(whiten(tensor([[4, 5, 6]], { dtype: "float64" }), bool(tokens)).toArray()).toEqual([0, 0, 0]);
  },
);

test("the gradient is finite for equal values, one token and none", () => {
  for (const tokens of [[[1, 1, 0]], [[1, 0, 0]], [[0, 0, 0]]]) {
    const values = tensor([[2, 2, Number.NaN]], { dtype: "float64" });
    values.requiresGrad = true;
    whiten(values, bool(tokens)).square().sum().backward();
    expect(values.grad!.toArray().every(Number.isFinite)).toBe(true);
  }
});
