import { expect, test } from "vitest";
import { full, tensor } from "../../torch/create.ts";
import { Fp8Matrix } from "./fp8-matrix.ts";

test("a product is that of rounded inputs with rounded weights, and the bias is not rounded", () => {
  // Weights 448 and 17, which becomes 16, and inputs 448 and 19, which becomes 20.
  const matrix = new Fp8Matrix(tensor([[448, 17]]));
  expect(matrix.linear(tensor([[448, 19]]), tensor([0.3])).item()).toBeCloseTo(448 * 448 + 16 * 20 + 0.3, 1);
  expect(matrix.expand().toArray()).toEqual([448, 16]);
  matrix.dispose();
});

test("new rows are written where the old ones are, each with a scale of its own, and the others stay", () => {
  const matrix = new Fp8Matrix(full([3, 2], 448));
  const before = matrix.expand();
  matrix.write(1, tensor([[4.48, 0.17]]));
  expect(before.toArray().map((value) => +value.toFixed(6))).toEqual([448, 448, 4.48, 0.16, 448, 448]);
  matrix.dispose();
});
