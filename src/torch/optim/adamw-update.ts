/** The arithmetic of AdamW, on lists of tensors of one device and type. */
import { full } from "../create.ts";
import { hasOp, op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";

/** Settings that can differ between groups of parameters. */
export interface AdamWSettings {
  readonly lr: number;
  /** Decay of the running mean of gradients, and of their squares. */
  readonly betas: readonly [number, number];
  /** Added to the root of the mean square. */
  readonly eps: number;
  /** Share of a weight that is subtracted per step, times lr. */
  readonly weightDecay: number;
}

/** Lists of equal length. Weights and moments are changed in place. */
interface AdamWTensors {
  readonly weights: readonly Tensor[];
  readonly gradients: readonly Tensor[];
  readonly firstMoments: readonly Tensor[];
  readonly secondMoments: readonly Tensor[];
}

/**
 * One step for all tensors. `step` counts from 1.
 *
 * w = w - lr * weightDecay * w
 * m = beta1 * m + (1 - beta1) * g
 * v = beta2 * v + (1 - beta2) * g^2
 * w = w - lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps)
 *
 * Loshchilov and Hutter 2017. Order of rounding as in PyTorch.
 */
export function adamwUpdate(tensors: AdamWTensors, step: number, settings: AdamWSettings): void {
  if (hasOp("aten::_fused_adamw_")) fusedUpdate(tensors, step, settings);
  else foreachUpdate(tensors, step, settings);
}

/** The update in one kernel. */
function fusedUpdate(
  { weights, gradients, firstMoments, secondMoments }: AdamWTensors,
  step: number,
  { lr, betas: [beta1, beta2], eps, weightDecay }: AdamWSettings,
): void {
  const stepTensor = full([], step, { device: weights[0]!.device });
  const steps = weights.map(() => stepTensor);
  ops.fused(
    weights,
    gradients,
    firstMoments,
    secondMoments,
    [],
    steps,
    lr,
    beta1,
    beta2,
    weightDecay,
    eps,
    false,
    false,
  );
}

/** The same, operator by operator. */
function foreachUpdate(
  { weights, gradients, firstMoments, secondMoments }: AdamWTensors,
  step: number,
  { lr, betas: [beta1, beta2], eps, weightDecay }: AdamWSettings,
): void {
  ops.mulScalar_(weights, 1 - lr * weightDecay);
  ops.mulScalar_(firstMoments, beta1);
  ops.add_(firstMoments, gradients, 1 - beta1);
  ops.mulScalar_(secondMoments, beta2);
  ops.addcmul_(secondMoments, gradients, gradients, 1 - beta2);
  const roots = ops.sqrt(secondMoments);
  ops.divScalar_(roots, Math.sqrt(1 - beta2 ** step));
  ops.addScalar_(roots, eps);
  ops.addcdiv_(weights, firstMoments, roots, -(lr / (1 - beta1 ** step)));
}

const ops = {
  fused: op("aten::_fused_adamw_"),
  mulScalar_: op("aten::_foreach_mul_.Scalar"),
  add_: op("aten::_foreach_add_.List"),
  addcmul_: op("aten::_foreach_addcmul_.Scalar"),
  sqrt: op("aten::_foreach_sqrt"),
  divScalar_: op("aten::_foreach_div_.Scalar"),
  addScalar_: op("aten::_foreach_add_.Scalar"),
  addcdiv_: op("aten::_foreach_addcdiv_.Scalar"),
} as const;
