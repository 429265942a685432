/** Running mean and deviation of rewards, by domain: the scale on which rewards of a long run are compared. */

/** The rewards of one domain so far. Plain data, so that a checkpoint can hold it. */
interface RewardMoments {
  readonly count: number;
  readonly mean: number;
  /** Sum of squared distances from the mean. */
  readonly squares: number;
}

/** By domain. */
export type RewardMomentsByDomain = Readonly<Record<string, RewardMoments>>;

/** What a trajectory earned. */
export interface EarnedReward {
  readonly domain: string;
  readonly reward: number;
}

const NONE: RewardMoments = { count: 0, mean: 0, squares: 0 };

/**
 * The moments with some more rewards. Adding them one by one or all at once gives the same (Welford):
 *
 * mean <- mean + (r - mean) / count, squares <- squares + (r - old mean) (r - new mean)
 */
export function addRewards(moments: RewardMomentsByDomain, rewards: readonly EarnedReward[]): RewardMomentsByDomain {
  const added: Record<string, RewardMoments> = { ...moments };
  for (const { domain, reward } of rewards) {
    const before = added[domain] ?? NONE;
    const count = before.count + 1;
    const mean = before.mean + (reward - before.mean) / count;
    added[domain] = { count, mean, squares: before.squares + (reward - before.mean) * (reward - mean) };
  }
  return added;
}

/** Mean and deviation of a domain. A domain whose rewards have not differed yet has nothing to be scaled by: deviation 1. */
export function rewardScale(
  moments: RewardMomentsByDomain,
  domain: string,
): { readonly mean: number; readonly deviation: number } {
  const { count, mean, squares } = moments[domain] ?? NONE;
  const deviation = count < 2 ? 0 : Math.sqrt(squares / (count - 1));
  return { mean, deviation: deviation < SMALLEST ? 1 : deviation };
}

/** Below this a deviation is the rounding of equal rewards. */
const SMALLEST = 1e-6;
