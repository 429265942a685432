/** The part of a rollout that PPO and the regression both read, as tensors. */

import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import type { AdaptationPolicy } from "./policy/adaptation-policy.ts";

export interface AdaptationBatch {
  /** Observations, normalized as the policy that acted saw them. */
  readonly observations_TNO: Tensor;
  readonly isFirst_TN: Tensor;
  /** The memory of the adapt module before the first tick. */
  readonly carry_NC: Tensor;
}

/** Makes the tensors of a rollout. Call it in a scope, which frees them. */
export function batchOf(rollout: ControlRollout, policy: AdaptationPolicy): AdaptationBatch {
  const { numTicks: T, numEnvs: N, observationSize: O } = rollout;
  const isFirst = Uint8Array.from(rollout.episodeTicks_TN, (ticks) => (ticks === 0 ? 1 : 0));
  return {
    observations_TNO: policy.normalizer.forward(tensor(rollout.observations_TNO, [T, N, O])),
    isFirst_TN: tensor(isFirst, [T, N]).ne(0),
    carry_NC: tensor(rollout.carry_NC, [N, policy.adaptModule.carrySize]),
  };
}
