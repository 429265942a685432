import { cat } from "../../../torch/create.ts";
import type { Tensor } from "../../../torch/tensor.ts";
import { expectAlike, expectMask } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { expectTokens } from "../expect-tokens.ts";
import { liveTokens } from "../live-tokens.ts";
import { meanOver, shareOf } from "../loss-metrics.ts";
import type { TokenLoss } from "../loss-output.ts";
import { type KlDirection, klOver } from "./distillation.ts";

/** Inputs over C candidates: the tokens the teacher was asked about, the same ones for the policy. */
interface TopDistillationInputs {
  readonly policyLogprobs_BTC: Tensor;
  readonly teacherLogprobs_BTC: Tensor;
  readonly lossMask_BT: Tensor;
}

interface TopDistillationOptions {
  readonly direction: KlDirection;
  /**
   * Where the probability of all other tokens goes. bucket: into one more outcome, which makes the loss a lower bound of
   * the full KL. renormalize: nowhere; both are scaled to sum 1 over the candidates, and mass outside costs nothing.
   */
  readonly tail: "bucket" | "renormalize";
}

/** Lower log-probs count as this, as in distillation.ts. */
const LOWEST_LOGPROB = -1e4;

/** The smallest probability of the bucket, so that its logarithm and the gradient of that stay finite in float32. */
const SMALLEST_TAIL = 1e-6;

/**
 * KL(teacher || policy) or KL(policy || teacher) over the candidates of each token, usually the teacher's top C.
 *
 * A served teacher can send this much: C log-probs per token instead of the whole vocabulary.
 */
export function topDistillationLoss(inputs: TopDistillationInputs, options: TopDistillationOptions): TokenLoss {
  const { policyLogprobs_BTC, teacherLogprobs_BTC, lossMask_BT } = inputs;
  expectMask({ lossMask_BT });
  expectAlike({ policyLogprobs_BTC, teacherLogprobs_BTC });
  expectTokens({ policyLogprobs_BTC }, lossMask_BT);
  const policyScores_BTC = policyLogprobs_BTC.clamp(LOWEST_LOGPROB);
  const teacherScores_BTC = teacherLogprobs_BTC.detach().clamp(LOWEST_LOGPROB);
  const live_BT = liveTokens(lossMask_BT, [policyScores_BTC, teacherScores_BTC]);
  const [policy, teacher] = [policyScores_BTC, teacherScores_BTC].map((scores_BTC) =>
    closeDistribution(zeroOutside(scores_BTC, live_BT.unsqueeze(2)), options.tail),
  ) as [Tensor, Tensor];
  const kl_BT = zeroOutside(klOver(policy, teacher, options.direction).sum(2), live_BT);
  return {
    level: "token",
    loss_BT: kl_BT,
    metrics: {
      [`distillation/${options.direction}_kl`]: meanOver(live_BT, kl_BT),
      "distillation/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), kl_BT),
    },
  };
}

/** Log-probs of a whole distribution: with one more outcome, or renormalized. */
function closeDistribution(logprobs_BTC: Tensor, tail: TopDistillationOptions["tail"]): Tensor {
  if (tail === "renormalize") return logprobs_BTC.logSoftmax(2);
  const rest_BT1 = logprobs_BTC.exp().sum(2, true).neg().add(1).clamp(SMALLEST_TAIL);
  return cat([logprobs_BTC, rest_BT1.log()], 2);
}
