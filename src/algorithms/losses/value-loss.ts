import type { Tensor } from "../../torch/tensor.ts";
import { expectBatch, expectRange } from "../expect-batch.ts";
import { zeroOutside } from "../masked.ts";
import { liveTokens } from "./live-tokens.ts";
import { meanOver, shareOf } from "./loss-metrics.ts";
import type { TokenLoss } from "./loss-output.ts";

interface ValueLossInputs {
  /** Predictions of the weights being trained. */
  readonly values_BT: Tensor;
  /** Predictions at the time of the rollout. */
  readonly oldValues_BT: Tensor;
  readonly returns_BT: Tensor;
  readonly lossMask_BT: Tensor;
}

export interface ValueLossOptions {
  /**
   * How far a prediction may move from the old one before it loses its gradient, in units of the return. null: no clip.
   */
  readonly valueClip: number | null;
}

/**
 * 1/2 max((V - R)^2, (clamp(V, V_old - valueClip, V_old + valueClip) - R)^2).
 *
 * PPO's value clipping, as in the code of PPO (Schulman et al. 2017) and verl. Without a clip, half the squared error.
 */
export function valueLoss(inputs: ValueLossInputs, { valueClip }: ValueLossOptions): TokenLoss {
  const { values_BT, oldValues_BT, returns_BT, lossMask_BT } = inputs;
  expectBatch(lossMask_BT, { values_BT, oldValues_BT, returns_BT });
  const live_BT = liveTokens(lossMask_BT, [values_BT, oldValues_BT, returns_BT]);
  const returned_BT = zeroOutside(returns_BT.detach(), live_BT);
  const value_BT = zeroOutside(values_BT, live_BT);
  const plain_BT = value_BT.sub(returned_BT).square();
  const metrics = {
    "value/mean": meanOver(live_BT, value_BT),
    "value/nonfinite_fraction": shareOf(lossMask_BT, live_BT.logicalNot(), value_BT),
  };
  if (valueClip === null) return { level: "token", loss_BT: plain_BT.mul(0.5), metrics };
  expectRange("valueClip", valueClip, 0);
  const old_BT = zeroOutside(oldValues_BT.detach(), live_BT);
  const clipped_BT = value_BT.minimum(old_BT.add(valueClip)).maximum(old_BT.sub(valueClip)).sub(returned_BT).square();
  return {
    level: "token",
    loss_BT: plain_BT.maximum(clipped_BT).mul(0.5),
    metrics: { ...metrics, "value/clip_fraction": shareOf(lossMask_BT, clipped_BT.gt(plain_BT), value_BT) },
  };
}
