import type { Tensor } from "../../../torch/tensor.ts";
import { expectBatch, expectRange } from "../../expect-batch.ts";
import type { TokenLoss } from "../loss-output.ts";
import {
  anchorKl,
  LOG_RATIO_BOUND,
  logRatio,
  type PolicyLossInputs,
  policyTerms,
  tokenLoss,
  tokenShare,
} from "./policy-loss.ts";

interface ToprInputs extends PolicyLossInputs {
  /** The raw reward of every sequence. Its sign, and not the advantage's, decides which side the sequence is on. */
  readonly rewards_B: Tensor;
}

interface ToprOptions {
  /** Weight of sequences with a reward above 0. */
  readonly weightPositive: number;
  /** Weight of the others. */
  readonly weightNegative: number;
  /** The ratio of the token (ROLL), or that of the whole sequence (the paper), which is near 0 for long replies. */
  readonly level: "token" | "sequence";
}

/**
 * -weightPositive A log policy where the reward is above 0; -weightNegative clamp(r, 0, 1) A log policy elsewhere, with
 * r = policy / anchor held fixed.
 *
 * Good samples are imitated; bad ones are pushed down only as long as the policy still produces them. TOPR
 * (arXiv:2503.14286).
 */
export function toprLoss(inputs: ToprInputs, { weightPositive, weightNegative, level }: ToprOptions): TokenLoss {
  expectRange("weightPositive", weightPositive, 0);
  expectRange("weightNegative", weightNegative, 0);
  const terms = policyTerms(inputs, { rewards_BT: spreadRewards(inputs) });
  const logRatio_BT = logRatio(terms);
  const used_BT = usedLogRatio(logRatio_BT.detach(), level).exp().clamp(0, 1).mul(weightNegative);
  const isPositive_B1 = inputs.rewards_B.gt(0).unsqueeze(1);
  const positive_BT = used_BT.mul(0).add(weightPositive);
  const loss_BT = positive_BT.where(isPositive_B1, used_BT).mul(terms.advantages_BT).mul(terms.policyLogprobs_BT).neg();
  return tokenLoss(terms, loss_BT, {
    "policy/positive_fraction": tokenShare(terms, isPositive_B1),
    ...anchorKl(terms, logRatio_BT),
  });
}

function spreadRewards({ rewards_B, lossMask_BT }: ToprInputs): Tensor {
  expectBatch(lossMask_BT, {}, { rewards_B });
  return rewards_B.unsqueeze(1).expand(...lossMask_BT.shape);
}

function usedLogRatio(logRatio_BT: Tensor, level: "token" | "sequence"): Tensor {
  if (level === "token") return logRatio_BT;
  return logRatio_BT.sum(1, true).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND);
}
