/**
 * Checks that the output of a vector environment can be trained on: arrays of the promised length, with finite numbers.
 *
 * Otherwise an array that is too short would be padded with zeros that no environment returned, and a NaN would only be noticed
 * after it has reached the weights.
 */

import { RerollError } from "../../errors/reroll-error.ts";
import type { VecEnv, VecStep } from "../envs/vec-env.ts";

/** Checks the result of `reset`. */
export function expectObservations({ numEnvs, observationSize }: VecEnv, observations_NO: Float32Array): void {
  expectNumbers("observations_NO", observations_NO, numEnvs, observationSize);
}

/** Checks the result of `step`. Final observations are read only where an episode ended. */
export function expectVecStep(env: VecEnv, step: VecStep): void {
  const { numEnvs, observationSize, rewardGroups } = env;
  expectObservations(env, step.observations_NO);
  expectNumbers("rewards_N", step.rewards_N, numEnvs, 1);
  if (rewardGroups !== undefined) expectNumbers("rewardParts_NG", step.rewardParts_NG, numEnvs, rewardGroups.length);
  expectLength("terminated_N", step.terminated_N, numEnvs, 1);
  expectLength("truncated_N", step.truncated_N, numEnvs, 1);
  expectLength("finalObservations_NO", step.finalObservations_NO, numEnvs, observationSize);
  for (let n = 0; n < numEnvs; n++) {
    if (step.terminated_N[n] === 0 && step.truncated_N[n] === 0) continue;
    expectFinite("finalObservations_NO", step.finalObservations_NO, observationSize, n, n + 1);
  }
}

function expectNumbers(name: string, values: Float32Array | undefined, numEnvs: number, size: number): void {
  expectLength(name, values, numEnvs, size);
  if (values !== undefined) expectFinite(name, values, size, 0, numEnvs);
}

function expectLength(name: string, values: ArrayLike<number> | undefined, numEnvs: number, size: number): void {
  if (values?.length === numEnvs * size) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `The environment returned ${values?.length ?? "no"} ${name} for ${numEnvs} environments. It must return ` +
      `${numEnvs * size}: ${size} per environment. checkVecEnv tells what else it breaks.`,
    { name, got: values?.length ?? null, numEnvs, size },
  );
}

function expectFinite(name: string, values: Float32Array, size: number, firstEnv: number, lastEnv: number): void {
  for (let at = firstEnv * size; at < lastEnv * size; at++) {
    if (Number.isFinite(values[at])) continue;
    const env = Math.floor(at / size);
    throw new RerollError(
      "NON_FINITE",
      `Environment ${env} returned ${values[at]} in ${name}, at ${at % size} of ${size}. All values must be finite.`,
      { name, env, value: values[at] },
    );
  }
}
