/** The estimators of an evaluation: chances of success, majority votes, and how sure a mean over prompts is. Pure. */

import type { Random } from "../../random/random.ts";
import type { AnswerReader } from "../../rewards/reward.ts";

/** A mean over prompts with its interval of 95 %. */
export interface Estimate {
  readonly value: number;
  readonly low: number;
  readonly high: number;
}

/**
 * The chance that at least one of k samples is right, from n samples of which c are: 1 - C(n - c, k) / C(n, k), without bias.
 * Chen et al. 2021, eq. 1.
 */
export function passAtK(n: number, c: number, k: number): number {
  if (n - c < k) return 1;
  let allWrong = 1;
  for (let i = n - c + 1; i <= n; i++) allWrong *= 1 - k / i;
  return 1 - allWrong;
}

/** A reply as a vote counts it. */
interface Vote {
  readonly answer: string | null;
  readonly reward: number;
}

/**
 * The reward of the answer that most replies give; where several have as many votes, the mean of theirs. Replies without an
 * answer do not vote, and where nobody does, the mean of all rewards counts.
 */
export function majorityReward(votes: readonly Vote[], isSame: AnswerReader["isSame"]): number {
  const camps: { readonly answer: string; readonly rewards: number[] }[] = [];
  for (const { answer, reward } of votes) {
    if (answer === null) continue;
    const camp = camps.find((each) => isSame(each.answer, answer));
    if (camp === undefined) camps.push({ answer, rewards: [reward] });
    else camp.rewards.push(reward);
  }
  if (camps.length === 0) return mean(votes.map(({ reward }) => reward));
  const most = Math.max(...camps.map(({ rewards }) => rewards.length));
  return mean(camps.filter(({ rewards }) => rewards.length === most).map(({ rewards }) => mean(rewards)));
}

/** The mean of one value per prompt. Shares, whose values are all 0 or 1, get Wilson's interval; other values a bootstrap's. */
export function estimate(values: readonly number[], random: Random): Estimate {
  const value = mean(values);
  const isShare = values.every((each) => each === 0 || each === 1);
  return { value, ...(isShare ? wilson(value, values.length) : bootstrap(values, random)) };
}

/** The quantile of the normal distribution that leaves 2.5 % on each side. */
const Z = 1.959964;

/** Wilson 1927: it stays between 0 and 1, and has a width also where all values are equal. */
function wilson(share: number, n: number): { low: number; high: number } {
  const center = (share + Z ** 2 / (2 * n)) / (1 + Z ** 2 / n);
  const half = (Z / (1 + Z ** 2 / n)) * Math.sqrt((share * (1 - share)) / n + Z ** 2 / (4 * n ** 2));
  // Rounding may leave the mean a little outside where all values are equal.
  return { low: Math.max(0, Math.min(share, center - half)), high: Math.min(1, Math.max(share, center + half)) };
}

const NUM_RESAMPLES = 2000;

/** Percentiles of the means of prompts drawn with replacement: samples of one prompt stay together. */
function bootstrap(values: readonly number[], random: Random): { low: number; high: number } {
  const means = Float64Array.from({ length: NUM_RESAMPLES }, () => {
    let sum = 0;
    for (let i = 0; i < values.length; i++) sum += values[random.integer(values.length)]!;
    return sum / values.length;
  }).sort();
  return { low: means[Math.floor(0.025 * NUM_RESAMPLES)]!, high: means[Math.ceil(0.975 * NUM_RESAMPLES) - 1]! };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
