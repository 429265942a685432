/** Queries, keys and values from one projection, queries and keys turned by the angles of their positions. */
import { applyFunction } from "./autograd.ts";
import { hasKernels } from "./kernels/cuda-kernel.ts";
import { canTurnHeads, type HeadSizes, joinHeadsKernel, turnHeadsKernel_ } from "./kernels/heads-kernel.ts";
import type { Tensor } from "./tensor.ts";

/** Whether `turnedHeads` takes projections of x with heads of these sizes. */
export function canTurn(x_SD: Tensor, sizes: HeadSizes): boolean {
  return hasKernels(x_SD) && canTurnHeads(sizes);
}

/**
 * Views of a projection [S, (H + 2 G) K]: [S, H, K], [S, G, K], [S, G, K]. It turns queries and keys where they lie: the projection is not to be used
 * otherwise. cos and sin are [S, K/2] in float32. Its gradient, summed over tokens, is that of `bias`, where there is one: make the projection
 * with a bias that is held fixed.
 */
export function turnedHeads(
  qkv_SN: Tensor,
  bias_N: Tensor | null,
  cos_SK: Tensor,
  sin_SK: Tensor,
  sizes: HeadSizes,
): readonly [q_SHK: Tensor, k_SGK: Tensor, v_SGK: Tensor] {
  const { H, G, K } = sizes;
  const [q, k, v] = applyFunction(
    {
      forward: ([qkv]) => {
        turnHeadsKernel_(qkv!, cos_SK, sin_SK, sizes);
        const outputs = qkv!.view(-1, H + 2 * G, K).splitSizes([H, G, G], 1);
        return { outputs, saved: [cos_SK, sin_SK] };
      },
      backward: ([gradQ, gradK, gradV], [cos, sin]) => {
        const readable = [gradQ!, gradK!, gradV!].map((grad) => (isReadable(grad, K) ? grad : grad.contiguous()));
        const gradients = readable as [Tensor, Tensor, Tensor];
        const [gradient_SN, sums_N] = joinHeadsKernel(gradients, cos!, sin!, sizes, bias_N !== null);
        return bias_N === null ? [gradient_SN] : [gradient_SN, sums_N];
      },
    },
    bias_N === null ? [qkv_SN] : [qkv_SN, bias_N],
  );
  return [q!, k!, v!];
}

/** Whether the heads of one token lie next to each other and can be read eight values at a time. */
function isReadable({ strides }: Tensor, K: number): boolean {
  return strides[2] === 1 && strides[1] === K && strides[0]! % 8 === 0;
}
