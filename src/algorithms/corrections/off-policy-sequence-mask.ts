import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { maskedMean } from "../masked.ts";

interface OffPolicySequenceMaskInputs {
  readonly policyLogprobs_BT: Tensor;
  readonly samplerLogprobs_BT: Tensor;
  readonly advantages_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

interface OffPolicySequenceMaskOptions {
  /** The largest mean of log sampler - log policy over a sequence, in nats per token. */
  readonly threshold: number;
}

/**
 * The loss mask without bad sequences that the policy would no longer produce: mean advantage below 0 and mean_t
 * (sampler - policy) above the threshold.
 *
 * Learning from the policy's own mistakes helps; learning from those of an older policy destabilizes training.
 * DeepSeek-V3.2 (arXiv:2512.02556), off-policy sequence masking. A sequence with a NaN or infinite mean is dropped.
 */
export function offPolicySequenceMask(
  inputs: OffPolicySequenceMaskInputs,
  { threshold }: OffPolicySequenceMaskOptions,
): Tensor {
  const { policyLogprobs_BT, samplerLogprobs_BT, advantages_BT, lossMask_BT } = inputs;
  expectBatch(lossMask_BT, { policyLogprobs_BT, samplerLogprobs_BT, advantages_BT });
  expectRange("threshold", threshold, 0);
  const gap_B = maskedMean(samplerLogprobs_BT.sub(policyLogprobs_BT).detach(), lossMask_BT, 1);
  const advantage_B = maskedMean(advantages_BT.detach(), lossMask_BT, 1);
  const isKept_B = gap_B.le(threshold).logicalOr(advantage_B.ge(0));
  const isFinite_B = gap_B.add(advantage_B).isFinite();
  return lossMask_BT.logicalAnd(isKept_B.logicalAnd(isFinite_B).unsqueeze(1));
}
