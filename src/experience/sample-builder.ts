/**
 * From trajectories to token samples.
 *
 * Turns whose prompt extends the tokens before them are one sequence; where a prompt breaks them (another context, or a
 * template that rewrites history) a new sample is forked. Trajectories that failed or were aborted give no samples.
 */
import { joinIds } from "../flow/join-arrays.ts";
import type { Metrics } from "../flow/metrics.ts";
import { checkPrefix } from "../flow/prefix-check.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { Trajectory, TrajectoryGroup, Turn } from "../flow/trajectory.ts";

export interface BuildOptions {
  /**
   * What a forked trajectory's samples are worth: each the rewards of its own turns, as algorithms over steps need it, or each
   * the total of the trajectory. Makes no difference to a trajectory that is one sample. Default "total".
   */
  readonly forkReward?: "own" | "total";
  /** Longer samples are left out and counted: they would not fit a forward pass. Default: none are. */
  readonly maxTokens?: number;
}

interface BuiltSamples {
  readonly samples: readonly TokenSample[];
  readonly metrics: Metrics;
}

export function buildSamples(groups: readonly TrajectoryGroup[], options: BuildOptions = {}): BuiltSamples {
  const { forkReward = "total", maxTokens = Infinity } = options;
  const built: TokenSample[] = [];
  let numTrajectories = 0;
  let numForks = 0;
  groups.forEach((group, index) => {
    for (const trajectory of group.trajectories) {
      if (trajectory.end.kind === "failed" || trajectory.end.kind === "aborted") continue;
      const runs = splitTurns(trajectory.turns);
      numForks += Math.max(0, runs.length - 1);
      const number = numTrajectories++;
      const isLast = (run: readonly Turn[]) => run === runs.at(-1);
      for (const run of runs) {
        const rewards = rewardsOf(run, trajectory, forkReward === "total" && runs.length > 1, isLast(run));
        built.push(joinTurns(run, rewards, trajectory, { group: index, trajectory: number }));
      }
    }
  });
  const samples = built.filter(({ tokenIds }) => tokenIds.length <= maxTokens);
  return {
    samples,
    metrics: {
      "experience/samples": samples.length,
      "experience/forks": numForks,
      "experience/too_long": built.length - samples.length,
      "experience/tokens": samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      "experience/loss_tokens": samples.reduce((sum, { lossMask }) => sum + count(lossMask), 0),
    },
  };
}

/** Turns that continue each other's tokens, in runs. Turns without a single sampled token are nothing to train on. */
function splitTurns(turns: readonly Turn[]): readonly (readonly Turn[])[] {
  const runs: Turn[][] = [];
  for (const turn of turns) {
    if (turn.reply.tokenIds.length === 0) continue;
    const run = runs.at(-1);
    if (run !== undefined && extendsTokens(run.at(-1)!, turn)) run.push(turn);
    else runs.push([turn]);
  }
  return runs;
}

function extendsTokens({ promptIds, reply }: Turn, next: Turn): boolean {
  return checkPrefix(joinIds([promptIds, reply.tokenIds]), next.promptIds).kind === "extends";
}

/** The reward at the end of each turn of a run. */
function rewardsOf(run: readonly Turn[], { reward }: Trajectory, isTotal: boolean, isLast: boolean): readonly number[] {
  if (isTotal) return run.map((_, i) => (i === run.length - 1 ? reward.total : 0));
  return run.map((turn, i) => turn.reward + (isLast && i === run.length - 1 ? reward.score : 0));
}

function joinTurns(
  run: readonly Turn[],
  turnRewards: readonly number[],
  { turns, end }: Trajectory,
  place: Pick<TokenSample, "group" | "trajectory">,
): TokenSample {
  const last = run.at(-1)!;
  const tokenIds = joinIds([last.promptIds, last.reply.tokenIds]);
  const { length } = tokenIds;
  const lossMask = new Uint8Array(length);
  const samplerLogprobs = new Float32Array(length);
  const versions = new Int32Array(length).fill(-1);
  const rewards = new Float32Array(length);
  run.forEach(({ promptIds, reply }, i) => {
    const start = promptIds.length;
    const stop = start + reply.tokenIds.length;
    lossMask.fill(1, start, stop);
    samplerLogprobs.set(reply.samplerLogprobs, start);
    versions.set(reply.versions, start);
    rewards[stop - 1] = turnRewards[i]!;
  });
  const turn = turns.indexOf(run[0]!);
  return {
    ...place,
    tokenIds,
    lossMask,
    samplerLogprobs,
    versions,
    rewards,
    turn,
    stateKey: run[0]!.stateKey ?? `turn ${turn}`,
    isTruncated: end.kind === "truncated",
  };
}

function count(mask: Uint8Array): number {
  let total = 0;
  for (const value of mask) total += value;
  return total;
}
