import fc from "fast-check";
import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ControlRollout } from "../control-rollout.ts";
import { scoreControl } from "./scores.ts";

interface Ticks {
  readonly numEnvs: number;
  readonly numGroups?: number;
  readonly observations: readonly number[];
  readonly rewards: readonly number[];
  readonly terminated?: readonly number[];
  readonly truncated?: readonly number[];
  /** By place, for the truncated ones. */
  readonly finals?: Readonly<Record<number, number>>;
  readonly last: readonly number[];
}

function rolloutOf({
  numEnvs,
  numGroups = 1,
  observations,
  rewards,
  terminated = [],
  truncated = [],
  finals = {},
  last,
}: Ticks): ControlRollout {
  const size = observations.length;
  const flags = (places: readonly number[]) =>
    Uint8Array.from({ length: size }, (_, i) => (places.includes(i) ? 1 : 0));
  const finalPlaces = truncated.filter((place) => !terminated.includes(place)).toSorted((a, b) => a - b);
  return {
    numTicks: size / numEnvs,
    numEnvs,
    version: 0,
    observationSize: 1,
    actionSize: 1,
    observations_TNO: Float32Array.from(observations),
    actions_TNA: new Float32Array(size),
    samplerLogprobs_TN: new Float32Array(size),
    rewards_TNG: Float32Array.from(rewards),
    numRewardGroups: numGroups,
    terminated_TN: flags(terminated),
    truncated_TN: flags(truncated),
    episodeTicks_TN: new Uint32Array(size),
    finalPlaces,
    finalObservations_FO: Float32Array.from(finalPlaces, (place) => finals[place]!),
    lastObservations_NO: Float32Array.from(last),
    lastEpisodeTicks_N: new Uint32Array(numEnvs),
    carry_NC: new Float32Array(0),
    episodes: [],
  };
}

/** A critic that takes every observation for its value. */
const itself = (observations_RO: Tensor) => observations_RO;

test("advantages bootstrap from the final observation where an episode was truncated", () => {
  const rollout = rolloutOf({
    ...{ numEnvs: 1, observations: [1, 2, 3], rewards: [1, 1, 1], truncated: [1], finals: { 1: 5 }, last: [4] },
  });
  const { advantages_B, returns_BG, values_BG } = scoreControl(rollout, rollout.rewards_TNG, itself, {
    gamma: 0.5,
    lambda: 0.5,
  });
  // Tick 2: 1 + 0.5 * 4 - 3 = 0. Tick 1: 1 + 0.5 * 5 - 2 = 1.5. Tick 0: 1 + 0.5 * 2 - 1 + 0.25 * 1.5 = 1.375.
  expect(advantages_B.toArray()).toEqual([1.375, 1.5, 0]);
  expect(returns_BG.toArray()).toEqual([2.375, 3.5, 3]);
  expect(values_BG.toArray()).toEqual([1, 2, 3]);
});

test("nothing is worth anything after a terminated episode, also where a limit ended it at the same tick", () => {
  const rollout = rolloutOf({
    ...{ numEnvs: 1, observations: [1, 2], rewards: [1, 1], terminated: [0], truncated: [0], last: [4] },
  });
  const { advantages_B } = scoreControl(rollout, rollout.rewards_TNG, itself, { gamma: 0.5, lambda: 1 });
  // Tick 1: 1 + 0.5 * 4 - 2 = 1. Tick 0: 1 - 1 = 0.
  expect(advantages_B.toArray()).toEqual([0, 1]);
});

test("each part of the reward has its own values and returns, and advantages are their sum", () => {
  const rollout = rolloutOf({
    ...{ numEnvs: 1, numGroups: 2, observations: [1, 2], rewards: [1, 10, 1, 20], last: [4] },
  });
  const both = (observations_RO: Tensor) => observations_RO.matmul(tensor([[1, 10]]));
  const { advantages_B, returns_BG, values_BG } = scoreControl(rollout, rollout.rewards_TNG, both, {
    gamma: 0.5,
    lambda: 0,
  });
  expect(values_BG.toArray()).toEqual([1, 10, 2, 20]);
  // One-step errors: 1 + 1 - 1 = 1 and 10 + 10 - 10 = 10; then 1 + 2 - 2 = 1 and 20 + 20 - 20 = 20.
  expect(advantages_B.toArray()).toEqual([11, 21]);
  expect(returns_BG.toArray()).toEqual([2, 20, 3, 40]);
});

test("advantages equal the sum of discounted errors up to the end of each episode", () => {
  const number = fc.integer({ min: -8, max: 8 });
  const column = (size: number) => fc.array(number, { minLength: size, maxLength: size });
  const places = (size: number) => fc.uniqueArray(fc.integer({ min: 0, max: size - 1 }), { maxLength: 4 });
  const ticks = fc
    .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 3 }))
    .chain(([T, N]) =>
      fc.tuple(fc.constant(N), column(T * N), column(T * N), places(T * N), places(T * N), column(T * N), column(N)),
    );
  fc.assert(
    fc.property(ticks, ([numEnvs, observations, rewards, terminated, truncated, finals, last]) => {
      const rollout = rolloutOf({
        ...{ numEnvs, observations, rewards, terminated, truncated, last },
        finals: Object.fromEntries(finals.entries()),
      });
      const [gamma, lambda] = [0.9, 0.8];
      const { advantages_B } = scoreControl(rollout, rollout.rewards_TNG, itself, { gamma, lambda });
      const next = (at: number) =>
        at + numEnvs < observations.length ? observations[at + numEnvs]! : last[at % numEnvs]!;
      const errorAt = (at: number) => {
        const value = terminated.includes(at) ? 0 : truncated.includes(at) ? finals[at]! : next(at);
        return rewards[at]! + gamma * value - observations[at]!;
      };
      const hasEnded = (at: number) => terminated.includes(at) || truncated.includes(at);
      for (const [start, advantage] of advantages_B.toArray().entries()) {
        let [sum, weight] = [0, 1];
        for (let at = start; at < observations.length; at += numEnvs) {
          sum += weight * errorAt(at);
          weight *= gamma * lambda;
          if (hasEnded(at)) break;
        }
        expect(advantage).toBeCloseTo(sum, 3);
      }
    }),
    { numRuns: 60 },
  );
});
