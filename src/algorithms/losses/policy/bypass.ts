import type { CorrectionMetrics } from "../../../flow/batch-statistics.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import type { RolloutCorrection } from "../../corrections/correction-options.ts";
import { correctRollout } from "../../corrections/rollout-correction.ts";
import type { LossOutput } from "../loss-output.ts";
import { type PpoClipOptions, ppoClipLoss } from "./ppo-clip.ts";
import { reinforceLoss } from "./reinforce.ts";

interface BypassInputs {
  readonly policyLogprobs_BT: Tensor;
  /** The sampler's log-probs, which serve as the anchor: no forward pass of the trainer is needed before the update. */
  readonly samplerLogprobs_BT: Tensor;
  readonly advantages_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /** The mean weight of the whole batch, for self-normalization that does not depend on the cut into microbatches. */
  readonly meanWeight?: Tensor;
}

export interface BypassOptions {
  readonly correction: RolloutCorrection;
  /** ppo-clip: the ratio is the correction, and weights are metrics only. reinforce: the weights multiply the loss. */
  readonly loss: ({ readonly type: "ppo-clip" } & PpoClipOptions) | { readonly type: "reinforce" };
}

interface BypassLoss {
  readonly output: LossOutput;
  /** The mask to reduce with, without the rejected tokens. Denominators may be those of the mask before rejection. */
  readonly lossMask_BT: Tensor;
  readonly correctionMetrics: CorrectionMetrics;
}

/**
 * The loss of bypass mode: weights and rejections by policy / sampler, computed anew at every call and held fixed, then
 * PPO-clip against the sampler, or -w A log policy.
 *
 * verl's `bypass_mode`. Meant for one epoch per rollout: see corrections/bypass-check.ts.
 */
export function bypassLoss(inputs: BypassInputs, { correction, loss }: BypassOptions): BypassLoss {
  const { policyLogprobs_BT, samplerLogprobs_BT, advantages_BT } = inputs;
  const { weights_BT, lossMask_BT, metrics } = correctRollout(inputs, correction);
  const common = { policyLogprobs_BT, anchorLogprobs_BT: samplerLogprobs_BT, advantages_BT, lossMask_BT };
  const output =
    loss.type === "ppo-clip"
      ? ppoClipLoss(common, loss)
      : reinforceLoss({ ...common, ...(weights_BT && { weights_BT }) }, { importance: "none" });
  return { output, lossMask_BT, correctionMetrics: metrics };
}
