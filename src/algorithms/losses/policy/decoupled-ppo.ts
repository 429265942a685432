import type { Tensor } from "../../../torch/tensor.ts";
import { expectPositive } from "../../expect-batch.ts";
import { zeroOutside } from "../../masked.ts";
import { meanOver } from "../loss-metrics.ts";
import type { TokenLoss } from "../loss-output.ts";
import { LOG_RATIO_BOUND, type PolicyLossInputs, policyTerms, tokenShare } from "./policy-loss.ts";
import { type PpoClipOptions, ppoClip } from "./ppo-clip.ts";

interface DecoupledPpoInputs extends PolicyLossInputs {
  /** Log-probs of the weights that produced the tokens; the anchor may be newer. */
  readonly samplerLogprobs_BT: Tensor;
}

interface DecoupledPpoOptions extends PpoClipOptions {
  /** The largest anchor / sampler weight. null: no bound. AReaL uses 5. */
  readonly weightCap: number | null;
  /**
   * Whether a larger weight is truncated to the cap, or set to 0, which drops the token from the gradient as in AReaL.
   */
  readonly overCap: "truncate" | "drop";
}

/**
 * w PPO-clip(r, A), w = anchor / sampler held fixed, r = policy / anchor.
 *
 * The trust region is around the anchor, and w corrects for the weights that sampled. Hilton et al. 2021
 * (arXiv:2110.00641); AReaL (arXiv:2505.24298).
 */
export function decoupledPpoLoss(inputs: DecoupledPpoInputs, options: DecoupledPpoOptions): TokenLoss {
  const { samplerLogprobs_BT } = inputs;
  const terms = policyTerms(inputs, { samplerLogprobs_BT });
  const sampler_BT = zeroOutside(samplerLogprobs_BT.detach(), terms.live_BT);
  const raw_BT = terms.anchorLogprobs_BT.sub(sampler_BT).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND).exp();
  const capped_BT = capWeights(raw_BT, options);
  const weights_BT = terms.weights_BT === null ? capped_BT : capped_BT.mul(terms.weights_BT);
  const { metrics, ...output } = ppoClip({ ...terms, weights_BT }, options);
  return {
    ...output,
    metrics: {
      ...metrics,
      "policy/sampler_weight": meanOver(terms.live_BT, capped_BT),
      "policy/weight_cap_fraction": tokenShare(terms, raw_BT.ne(capped_BT)),
    },
  };
}

function capWeights(raw_BT: Tensor, { weightCap, overCap }: DecoupledPpoOptions): Tensor {
  if (weightCap === null) return raw_BT;
  expectPositive("weightCap", weightCap);
  return overCap === "truncate" ? raw_BT.clamp(null, weightCap) : raw_BT.maskedFill(raw_BT.gt(weightCap), 0);
}
