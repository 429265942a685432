/** Residual sum and norm: what stands between two parts of a decoder. On a GPU either direction is one pass over memory; on the CPU see row-passes.ts. */
import { applyFunction } from "./autograd.ts";
import { isExact } from "./exact.ts";
import { rmsNorm } from "./fused.ts";
import { hasKernels } from "./kernels/cuda-kernel.ts";
import { canNormRows, residualNormBackwardKernel, residualNormKernel } from "./kernels/residual-norm-kernel.ts";
import { areRows, residualNormRows } from "./row-passes.ts";
import type { Tensor } from "./tensor.ts";

/** The residual stream, and its norm for the part that comes next. */
export interface NormedStream {
  readonly sum: Tensor;
  readonly normed: Tensor;
}

/**
 * x + delta, and rmsNorm of that. Null adds nothing. Who goes on with `sum` where x went on otherwise lets the backward pass add up both of
 * its gradients on the way.
 */
export function residualNorm(x: Tensor, delta: Tensor | null, weight: Tensor, eps: number): NormedStream {
  if (areRows(delta === null ? [x, weight] : [x, delta, weight])) return residualNormRows(x, delta, weight, eps);
  if (!isKernelRow(x, delta, weight) || isExact()) {
    const sum = delta === null ? x : x.add(delta);
    return { sum, normed: rmsNorm(sum, weight, eps) };
  }
  const [sum, normed] = applyFunction(
    {
      forward: ([x, weight, delta = null]) => {
        const outputs = residualNormKernel(x!, delta, weight!, eps);
        return { outputs, saved: [outputs[0], weight!] };
      },
      backward: ([gradSum = null, gradNormed = null], [sum, weight]) => {
        const others = delta === null ? [] : [null];
        if (gradNormed === null) return [gradSum, null, ...others.map(() => gradSum)];
        const [gradient, gradWeight] = residualNormBackwardKernel(
          gradNormed.contiguous(),
          gradSum?.contiguous() ?? null,
          sum!,
          weight!,
          eps,
        );
        return [gradient, gradWeight, ...others.map(() => gradient)];
      },
    },
    delta === null ? [x, weight] : [x, weight, delta],
  );
  return { sum: sum!, normed: normed! };
}

function isKernelRow(x: Tensor, delta: Tensor | null, weight: Tensor): boolean {
  if (!hasKernels(x) || !x.isContiguous || delta?.isContiguous === false) return false;
  const { shape, dtype } = x;
  const isOneType = weight.dtype === dtype && (delta === null || delta.dtype === dtype);
  return isOneType && shape.length === 2 && canNormRows(shape[1]!);
}
