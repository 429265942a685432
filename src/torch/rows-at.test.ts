import { expect, test } from "vitest";
import { gradients } from "./autograd.ts";
import { tensor } from "./create.ts";
import { rowsAt, tokensByRow } from "./rows-at.ts";
import { tensorScope } from "./scope.ts";

const places = [3, 0, 3, 4, 3];

test("tokens are told by row, in their own order, and rows without any have none", () => {
  tensorScope(() => {
    const { order_S, starts } = tokensByRow(tensor(places, { dtype: "int64" }), 6);
    expect(order_S.toArray()).toEqual([1, 0, 2, 4, 3]);
    expect(starts.toArray()).toEqual([0, 1, 1, 1, 4, 5, 5]);
    expect([order_S.dtype, starts.dtype]).toEqual(["int64", "int32"]);
  });
});

test("the gradient of a row is the sum of those of its tokens", () => {
  tensorScope(() => {
    const matrix = tensor([[1], [2], [3], [4], [5], [6]]);
    matrix.requiresGrad = true;
    const rows = rowsAt(matrix, tensor(places, { dtype: "int64" }));
    expect(rows.toArray()).toEqual([4, 1, 4, 5, 4]);
    const gradOutputs = [tensor([[1], [10], [100], [1000], [10_000]])];
    const [gradient] = gradients([rows], [matrix], { gradOutputs });
    expect(gradient!.toArray()).toEqual([10, 0, 0, 10_101, 1000, 0]);
  });
});
