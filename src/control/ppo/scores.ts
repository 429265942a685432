/**
 * Values, advantages and returns for every tick of a rollout.
 *
 * In: a rollout, the rewards to score it by, and a critic. Out: tensors of B = T * N rows, in the order of the rollout. The
 * critic runs once, on all observations together: those that were acted on, those after the last tick, and the last one of
 * every truncated episode.
 */

import { joinFloats } from "../../flow/join-arrays.ts";
import { noGrad } from "../../torch/autograd.ts";
import { stack, tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import { controlGae } from "./gae.ts";

/** One row per tick and environment. */
export interface ControlScores {
  /** The critic's value of each part of the reward. */
  readonly values_BG: Tensor;
  /** The critic's targets. */
  readonly returns_BG: Tensor;
  /** Summed over the parts of the reward. */
  readonly advantages_B: Tensor;
}

/** The settings of generalized advantage estimation. */
interface ControlScoreOptions {
  readonly gamma: number;
  readonly lambda: number;
}

/**
 * @param rewards_TNG the rewards of the rollout, normalized or not
 * @param valuesOf the critic, from observations as the environment gave them, [R, O], to values, [R, G]
 */
export function scoreControl(
  rollout: ControlRollout,
  rewards_TNG: Float32Array,
  valuesOf: (observations_RO: Tensor) => Tensor,
  options: ControlScoreOptions,
): ControlScores {
  return noGrad(() =>
    tensorScope(() => {
      const { numTicks: T, numEnvs: N, numRewardGroups: G } = rollout;
      const values_RG = valuesOf(allObservations(rollout));
      const values_TNG = values_RG.narrow(0, 0, T * N).view(T, N, G);
      const lastValues_NG = values_RG.narrow(0, T * N, N);
      const finalValues_TNG = placeFinalValues(rollout, values_RG);
      const rewards = tensor(rewards_TNG, [T, N, G]);
      const terminated_TN = tensor(rollout.terminated_TN, [T, N]).ne(0);
      const truncated_TN = tensor(rollout.truncated_TN, [T, N]).ne(0);
      const groups = Array.from({ length: G }, (_, g) =>
        controlGae(
          {
            rewards_TN: rewards.select(2, g),
            values_TN: values_TNG.select(2, g),
            lastValues_N: lastValues_NG.select(1, g),
            finalValues_TN: finalValues_TNG.select(2, g),
            terminated_TN,
            truncated_TN,
          },
          options,
        ),
      );
      return {
        values_BG: values_TNG.reshape(T * N, G),
        returns_BG: stack(
          groups.map(({ returns_TN }) => returns_TN),
          2,
        ).view(T * N, G),
        advantages_B: stack(groups.map(({ advantages_TN }) => advantages_TN))
          .sum(0)
          .view(T * N),
      };
    }),
  );
}

function allObservations(rollout: ControlRollout): Tensor {
  const { observations_TNO, lastObservations_NO, finalObservations_FO, observationSize: O } = rollout;
  const all = joinFloats([observations_TNO, lastObservations_NO, finalObservations_FO]);
  return tensor(all, [all.length / O, O]);
}

/** The values of final observations at the ticks at which their episodes were truncated, 0 elsewhere. */
function placeFinalValues(
  { numTicks: T, numEnvs: N, numRewardGroups: G, finalPlaces }: ControlRollout,
  values: Tensor,
) {
  const placed_TNG = new Float32Array(T * N * G);
  if (finalPlaces.length > 0) {
    const final_FG = values.narrow(0, T * N + N, finalPlaces.length).toFloat32Array();
    for (const [f, place] of finalPlaces.entries()) placed_TNG.set(final_FG.subarray(f * G, (f + 1) * G), place * G);
  }
  return tensor(placed_TNG, [T, N, G]);
}
