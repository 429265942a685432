/** What the samples of a batch say by themselves, before any model has looked at them. */
import type { EarnedReward } from "../algorithms/shaping/reward-moments.ts";
import type { TokenBatch } from "../flow/token-batch.ts";
import type { SampleBatch, TokenSample } from "../flow/token-sample.ts";
import { tensor } from "../torch/create.ts";
import type { Device } from "../torch/dtype.ts";

/** What each trajectory earned, over all of its rows. */
export function rewardsOf(samples: readonly TokenSample[]): readonly EarnedReward[] {
  const earned = new Map<number, EarnedReward>();
  for (const { trajectory, domain = "", rewards } of samples) {
    let reward = earned.get(trajectory)?.reward ?? 0;
    for (let i = 0; i < rewards.length; i++) reward += rewards[i]!;
    earned.set(trajectory, { domain, reward });
  }
  return [...earned.values()];
}

/** Number of trajectories that the rows belong to. */
export function countTrajectories({ samples }: SampleBatch): number {
  return new Set(samples.map(({ trajectory }) => trajectory)).size;
}

/** The weight of each row, unless all weigh the same. */
export function weightsOf({ samples }: Pick<SampleBatch, "samples">, device: Device): Pick<TokenBatch, "rowWeights_B"> {
  const weights = samples.map(({ weight = 1 }) => weight);
  return weights.every((weight) => weight === 1) ? {} : { rowWeights_B: tensor(weights, { device }) };
}

/** The greedy trajectory of each row's prompt, where groups have one. */
export function greedyOf({ samples }: Pick<SampleBatch, "samples">): Pick<TokenBatch, "greedyOf"> {
  const outcomes = samples.flatMap(({ greedy }) => greedy ?? []);
  return outcomes.length < samples.length ? {} : { greedyOf: outcomes };
}
