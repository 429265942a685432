/**
 * The scores of the next token, as precise as the product that makes them.
 *
 * A product of 16-bit matrices is added up in float32. Rounding its results to bfloat16 moves a score of 20 by up to 0.06, and
 * that, more than anything before it, was what log-probabilities of sampler and trainer differed by. Where libtorch can, both keep
 * the sums as they are.
 */
import { hasOp, op } from "../../torch/operator.ts";
import { linear } from "../../torch/steady-products.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** hidden head', [S, V]: in float32 where `hasWideScores`, else in the type of its inputs. No gradient flows through wide scores. */
export function tokenScores(hidden_SD: Tensor, head_VD: Tensor): Tensor {
  return hasWideScores(hidden_SD) ? ops.mm(hidden_SD, head_VD.t(), "float32") : linear(hidden_SD, head_VD);
}

/** Scores bent to stay within a cap: cap tanh(score / cap). Null leaves them. */
export function softCapped(scores: Tensor, cap: number | null): Tensor {
  return cap === null ? scores : scores.div(cap).tanh().mul(cap);
}

/** The slope of softCapped, from what it gave: 1 - (capped / cap)^2. Null where it is 1 throughout. */
export function softCapSlope(capped: Tensor, cap: number | null): Tensor | null {
  return cap === null ? null : capped.div(cap).square().neg().add(1);
}

/** Whether scores made of tensors like this one are wider than it. */
export function hasWideScores({ dtype, device }: Tensor): boolean {
  return device.startsWith("cuda") && /^b?float16$/.test(dtype) && hasOp("aten::mm.dtype");
}

const ops = { mm: op("aten::mm.dtype") } as const;
