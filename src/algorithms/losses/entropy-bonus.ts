import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch } from "../expect-batch.ts";
import { zeroOutside } from "../masked.ts";
import { liveTokens } from "./live-tokens.ts";
import { meanOver, shareOf } from "./loss-metrics.ts";
import type { TokenLoss } from "./loss-output.ts";

interface EntropyBonusInputs {
  /** The entropy of the next-token distribution, in nats. */
  readonly entropies_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

/**
 * -coefficient H per token, to be added to the policy loss.
 *
 * A3C (arXiv:1602.01783). For a coefficient that follows a target see entropy-controller.ts.
 */
export function entropyBonus({ entropies_BT, lossMask_BT }: EntropyBonusInputs, coefficient: number): TokenLoss {
  expectBatch(lossMask_BT, { entropies_BT });
  const live_BT = liveTokens(lossMask_BT, [entropies_BT]);
  const entropy_BT = zeroOutside(entropies_BT, live_BT);
  return {
    level: "token",
    loss_BT: entropy_BT.mul(-coefficient),
    metrics: {
      "policy/entropy": meanOver(live_BT, entropy_BT),
      "policy/entropy_nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), entropy_BT),
    },
  };
}
