import { expect, test } from "vitest";
import { tensor } from "../torch/create.ts";
import { maskedMax, maskedMean, maskedMin, maskedSum, maskedVariance } from "./masked.ts";

const bool = (values: number[] | number[][]) => tensor(values, { dtype: "bool" });
const double = (values: number[] | number[][]) => tensor(values, { dtype: "float64" });

test("a masked mean neither reads nor gives a gradient to what lies outside", () => {
  const values = double([
    [1, 2, Number.NaN],
    [6, Number.POSITIVE_INFINITY, 0],
  ]);
  values.requiresGrad = true;
  const mean = maskedMean(
    values,
    bool([
      [1, 1, 0],
      [1, 0, 0],
    ]),
  );
  expect(mean.item()).toBeCloseTo(3, 7);
  mean.backward();
  const third = expect.closeTo(1 / 3, 7);
  expect(values.grad!.toArray()).toEqual([third, third, 0, third, 0, 0]);
});

test("a masked mean over a dimension has one value per row, 0 for an empty row", () => {
  const mean = maskedMean(
    tensor([
      [1, 2],
      [5, 7],
    ]),
    bool([
      [1, 1],
      [0, 0],
    ]),
    1,
  );
  expect(mean.toArray()).toEqual([1.5, 0]);
  expect(mean.dtype).toBe("float32");
});

test("an empty mask gives 0 everywhere, also in the gradient", () => {
  const values = tensor([3, Number.NaN]);
  values.requiresGrad = true;
  const none = bool([0, 0]);
  const results = [maskedSum, maskedMean, maskedVariance, maskedMax, maskedMin].map((reduce) => reduce(values, none));
  expect(results.map((result) => Math.abs(result.item()))).toEqual([0, 0, 0, 0, 0]);
  for (const result of results) result.backward();
  expect(values.grad!.toArray().map(Math.abs)).toEqual([0, 0]);
});

test("a masked variance divides by n - 1, or by n", () => {
  // 1, 2, 4 around 7/3: (16 + 1 + 25) / 9 = 42/9.
  const [values, mask] = [double([1, 2, 4, Number.NaN]), bool([1, 1, 1, 0])];
  expect(maskedVariance(values, mask).item()).toBeCloseTo(42 / 18, 7);
  expect(maskedVariance(values, mask, { correction: 0 }).item()).toBeCloseTo(42 / 27, 7);
});

test("the variance of one value is 0", () => {
  expect(maskedVariance(double([5, 6]), bool([1, 0])).item()).toBe(0);
});

test("a masked variance has a finite gradient when NaN lies outside", () => {
  const values = double([1, 3, Number.NaN]);
  values.requiresGrad = true;
  maskedVariance(values, bool([1, 1, 0])).backward();
  // d/dx of (x - y)^2 / 2 is x - y.
  expect(values.grad!.toArray()).toEqual([expect.closeTo(-2, 6), expect.closeTo(2, 6), 0]);
});

test("masked extremes look at masked values only", () => {
  const [values, mask] = [
    double([
      [-3, 9, -1],
      [4, 5, 6],
    ]),
    bool([
      [1, 0, 1],
      [0, 0, 0],
    ]),
  ];
  expect(maskedMax(values, mask).item()).toBe(-1);
  expect(maskedMin(values, mask).item()).toBe(-3);
  expect(maskedMax(values, mask, 1).toArray()).toEqual([-1, 0]);
});
