/** Rows of a matrix by their places, as tokens find their vectors. */
import { applyFunction } from "./autograd.ts";
import { arange } from "./create.ts";
import { hasKernels } from "./kernels/cuda-kernel.ts";
import { canSumRows, embeddingGradientKernel } from "./kernels/embedding-kernel.ts";
import { op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

/** [V, D] and places [S] to [S, D]. The gradient of a row is summed in float32 and in the same order every time. */
export function rowsAt(matrix_VD: Tensor, places_S: Tensor): Tensor {
  const [V, D] = matrix_VD.shape as [number, number];
  if (!hasKernels(matrix_VD) || !canSumRows(D)) return ops.embedding(matrix_VD, places_S);
  return applyFunction(
    {
      forward: ([matrix]) => ({ outputs: [ops.embedding(matrix!, places_S)], saved: [places_S] }),
      backward: ([gradient_SD], [places]) => {
        const { order_S, starts } = tokensByRow(places!, V);
        return [embeddingGradientKernel(gradient_SD!.contiguous(), order_S, starts)];
      },
    },
    [matrix_VD],
  )[0]!;
}

/** The tokens of row v, in their own order: order[starts[v]] to order[starts[v + 1] - 1]. int64, and int32 of numRows + 1 elements. */
export function tokensByRow(places_S: Tensor, numRows: number): { readonly order_S: Tensor; readonly starts: Tensor } {
  const { device } = places_S;
  // Places in 32 bits are sorted in half the passes.
  const [sorted_S, order_S] = ops.sort(places_S.to("int32"), true, 0);
  const starts = ops.searchSorted(sorted_S, arange(0, numRows + 1, { dtype: "int32", device }), true);
  return { order_S, starts };
}

const ops = {
  embedding: op("aten::embedding"),
  sort: op("aten::sort.stable"),
  searchSorted: op("aten::searchsorted.Tensor", { isUnchecked: true }),
} as const;
