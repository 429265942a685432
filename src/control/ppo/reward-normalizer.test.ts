import { expect, test } from "vitest";
import type { ControlRollout } from "../control-rollout.ts";
import { RewardNormalizer } from "./reward-normalizer.ts";

function rolloutOf(
  rewards_TNG: readonly number[],
  { ends = [] as number[], numEnvs = 1, numGroups = 1 } = {},
): ControlRollout {
  const size = rewards_TNG.length / numGroups;
  return {
    numTicks: size / numEnvs,
    numEnvs,
    version: 0,
    observationSize: 1,
    actionSize: 1,
    observations_TNO: new Float32Array(size),
    actions_TNA: new Float32Array(size),
    samplerLogprobs_TN: new Float32Array(size),
    rewards_TNG: Float32Array.from(rewards_TNG),
    numRewardGroups: numGroups,
    terminated_TN: Uint8Array.from({ length: size }, (_, i) => (ends.includes(i) ? 1 : 0)),
    truncated_TN: new Uint8Array(size),
    episodeTicks_TN: new Uint32Array(size),
    finalPlaces: [],
    finalObservations_FO: new Float32Array(0),
    lastObservations_NO: new Float32Array(numEnvs),
    lastEpisodeTicks_N: new Uint32Array(numEnvs),
    carry_NC: new Float32Array(0),
    episodes: [],
  };
}

test("rewards are divided by the deviation of the returns so far", () => {
  const normalizer = new RewardNormalizer(0.5);
  const scaled = normalizer.normalize(rolloutOf([2, 4, 1]));
  // Returns 2, 5 and 3.5, beside the first guess of variance 1 with weight 1e-4.
  const variances = [2, 3].map((count) => {
    const returns = [2, 5, 3.5].slice(0, count);
    const total = count + 1e-4;
    const mean = returns.reduce((sum, value) => sum + value, 0) / total;
    const squares = returns.reduce((sum, value) => sum + value ** 2, 1e-4);
    return squares / total - mean ** 2;
  });
  expect(scaled[1]).toBeCloseTo(4 / Math.sqrt(variances[0]! + 1e-8), 5);
  expect(scaled[2]).toBeCloseTo(1 / Math.sqrt(variances[1]! + 1e-8), 5);
});

test("scaled rewards stay within ten", () => {
  // One value has next to no variance: dividing by it would give hundreds.
  expect([...new RewardNormalizer(0.5).normalize(rolloutOf([20]))]).toEqual([10]);
});

test("the return starts again where an episode ends", () => {
  const [ended, endless] = [new RewardNormalizer(1), new RewardNormalizer(1)];
  ended.normalize(rolloutOf([1, 1, 1], { ends: [0, 1] }));
  endless.normalize(rolloutOf([1, 1, 1]));
  expect(ended.state().returns_N).toEqual([1]);
  expect(endless.state().returns_N).toEqual([3]);
});

test("a cut into rollouts, and a save between them, change nothing", () => {
  const rewards = [1, 5, -2, 3, 0, 8, 2, 1];
  const whole = new RewardNormalizer(0.9).normalize(rolloutOf(rewards, { numEnvs: 2 }));
  const first = new RewardNormalizer(0.9);
  const head = first.normalize(rolloutOf(rewards.slice(0, 4), { numEnvs: 2 }));
  const second = new RewardNormalizer(0.9);
  second.restore(JSON.parse(JSON.stringify(first.state())));
  const tail = second.normalize(rolloutOf(rewards.slice(4), { numEnvs: 2 }));
  expect([...head, ...tail]).toEqual([...whole]);
});

test("all parts of a reward are scaled by the return of their sum", () => {
  const parts = new RewardNormalizer(0.9).normalize(rolloutOf([1, 2, 3, 1], { numGroups: 2 }));
  const sums = new RewardNormalizer(0.9).normalize(rolloutOf([3, 4]));
  expect(parts[2]! + parts[3]!).toBeCloseTo(sums[1]!, 5);
  expect(parts[2]! / parts[3]!).toBeCloseTo(3, 5);
});
