import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch } from "../expect-batch.ts";
import { zeroOutside } from "../masked.ts";
import { liveTokens } from "./live-tokens.ts";
import { meanOver, shareOf } from "./loss-metrics.ts";
import type { TokenLoss } from "./loss-output.ts";

interface CrossEntropyInputs {
  /** Log-probs of the target tokens under the weights being trained. */
  readonly policyLogprobs_BT: Tensor;
  readonly lossMask_BT: Tensor;
  /** A weight per token. Default 1. */
  readonly weights_BT?: Tensor;
}

/** -w log policy at the target tokens: supervised fine-tuning. Reduce with token-mean for the usual loss. */
export function crossEntropyLoss({ policyLogprobs_BT, lossMask_BT, weights_BT }: CrossEntropyInputs): TokenLoss {
  expectBatch(lossMask_BT, { policyLogprobs_BT, ...(weights_BT && { weights_BT }) });
  const live_BT = liveTokens(lossMask_BT, weights_BT ? [policyLogprobs_BT, weights_BT] : [policyLogprobs_BT]);
  const nll_BT = zeroOutside(policyLogprobs_BT, live_BT).neg();
  return {
    level: "token",
    loss_BT: weights_BT ? nll_BT.mul(zeroOutside(weights_BT.detach(), live_BT)) : nll_BT,
    metrics: {
      "supervised/nll": meanOver(live_BT, nll_BT),
      "supervised/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), nll_BT),
    },
  };
}
