/** A rollout as the tensors that teacher and student are trained on. */

import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";

/** What both PPO and the regression read. */
export interface AdaptationBatch {
  /** Normalized as they were for the policy that acted. */
  readonly observations_TNO: Tensor;
  readonly isFirst_TN: Tensor;
  /** What the adapt module remembered before the first tick. */
  readonly carry_NC: Tensor;
}

/** The tensors of a rollout. Call it in a scope, which frees them. */
export function batchOf(rollout: ControlRollout, policy: AdaptationPolicy): AdaptationBatch {
  const { numTicks: T, numEnvs: N, observationSize: O } = rollout;
  const isFirst = Uint8Array.from(rollout.episodeTicks_TN, (ticks) => (ticks === 0 ? 1 : 0));
  return {
    observations_TNO: policy.normalizer.forward(tensor(rollout.observations_TNO, [T, N, O])),
    isFirst_TN: tensor(isFirst, [T, N]).ne(0),
    carry_NC: tensor(rollout.carry_NC, [N, policy.adaptModule.carrySize]),
  };
}
