/** KL as part of the reward: each token pays for moving away from the reference. */
import { noGrad } from "../../torch/autograd.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { maskedMean, zeroOutside } from "../masked.ts";

/**
 * r_t - coefficient KL_t on loss tokens, r_t elsewhere. It has no gradient: the penalty acts through the advantages.
 *
 * Source: arXiv:1909.08593, eq. 2, per token as in InstructGPT.
 */
export function penalizeRewards(rewards_BT: Tensor, kl_BT: Tensor, lossMask_BT: Tensor, coefficient: number): Tensor {
  expectBatch(lossMask_BT, { rewards_BT, kl_BT });
  expectRange("coefficient", coefficient, 0);
  return noGrad(() => tensorScope(() => rewards_BT.sub(zeroOutside(kl_BT, lossMask_BT).mul(coefficient))));
}

/**
 * The KL that an adaptive controller is steered by: the mean over the tokens of each row, then over all rows, as verl
 * measures it. A row without loss tokens counts as 0.
 */
export function measureKl(kl_BT: Tensor, lossMask_BT: Tensor): number {
  expectBatch(lossMask_BT, { kl_BT });
  return tensorScope(() => maskedMean(kl_BT.detach(), lossMask_BT, 1).mean().item());
}
