import type { Tensor } from "../../../torch/tensor.ts";
import { expectBatch } from "../../expect-batch.ts";
import { maskedMean, maskedSum } from "../../masked.ts";

/** The log-probability of every reply: the sum over its tokens, or their mean, which does not favor short replies. */
export function sequenceLogprobs(
  logprobs_BT: Tensor,
  lossMask_BT: Tensor,
  { isPerToken = false }: { readonly isPerToken?: boolean } = {},
): Tensor {
  expectBatch(lossMask_BT, { logprobs_BT });
  return isPerToken ? maskedMean(logprobs_BT, lossMask_BT, 1) : maskedSum(logprobs_BT, lossMask_BT, 1);
}
