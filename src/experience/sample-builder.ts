/**
 * Builds rows from trajectories: token sequences to train on, of type `TokenSample`.
 *
 * Turns whose prompt extends the tokens before them are one row; where a prompt breaks off (another context, or a
 * template that rewrites history) a new row is forked. Every reward is placed once, on the turn that earned it, so that
 * the rewards of a trajectory's rows add up to its total. Trajectories that failed or were aborted give no rows.
 */
import { joinIds } from "../flow/join-arrays.ts";
import type { Metrics } from "../flow/metrics.ts";
import { checkPrefix } from "../flow/prefix-check.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { Trajectory, TrajectoryGroup, Turn } from "../flow/trajectory.ts";

export interface BuildOptions {
  /** Rows that are longer would not fit a forward pass: they are left out and counted. Default: none are. */
  readonly maxTokens?: number;
}

interface BuiltSamples {
  readonly samples: readonly TokenSample[];
  readonly metrics: Metrics;
}

export function buildSamples(groups: readonly TrajectoryGroup[], options: BuildOptions = {}): BuiltSamples {
  const { maxTokens = Infinity } = options;
  const samples: TokenSample[] = [];
  let numTrajectories = 0;
  let numForks = 0;
  let numTooLong = 0;
  groups.forEach((group, index) => {
    for (const trajectory of group.trajectories) {
      if (trajectory.end.kind === "failed" || trajectory.end.kind === "aborted") continue;
      const runs = splitTurns(trajectory.turns);
      numForks += Math.max(0, runs.length - 1);
      const fitting = runs.filter((run) => lengthOf(run) <= maxTokens);
      numTooLong += runs.length - fitting.length;
      const rewardOf = creditTurns(trajectory, new Set(fitting.flat()));
      const { domain } = group.prompt;
      const greedy = group.greedy && { greedyReward: group.greedy.reward.total };
      const place = { group: index, trajectory: numTrajectories++, domain, ...greedy };
      for (const run of fitting) samples.push(joinTurns(run, rewardOf, trajectory, place));
    }
  });
  return {
    samples,
    metrics: {
      "experience/rows": samples.length,
      "experience/forks": numForks,
      "experience/too_long": numTooLong,
      "experience/tokens": samples.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      "experience/loss_tokens": samples.reduce((sum, { lossMask }) => sum + count(lossMask), 0),
    },
  };
}

/**
 * Runs of turns that continue each other's tokens. Turns without a single sampled token are left out: there is nothing
 * to train on.
 */
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

function lengthOf(run: readonly Turn[]): number {
  const last = run.at(-1)!;
  return last.promptIds.length + last.reply.tokenIds.length;
}

/**
 * The reward of each turn that is trained on. The reward of any other turn goes to the trained turn before it, which
 * led to it, or to the first trained turn if there is none before; the score of the whole trajectory goes to the last.
 */
function creditTurns({ turns, reward }: Trajectory, isTrained: ReadonlySet<Turn>): ReadonlyMap<Turn, number> {
  const credited = new Map<Turn, number>();
  const first = turns.find((turn) => isTrained.has(turn));
  if (first === undefined) return credited;
  let last = first;
  for (const turn of turns) {
    if (isTrained.has(turn)) last = turn;
    credited.set(last, (credited.get(last) ?? 0) + turn.reward);
  }
  return credited.set(last, credited.get(last)! + reward.score);
}

function joinTurns(
  run: readonly Turn[],
  rewardOf: ReadonlyMap<Turn, number>,
  { turns, end }: Trajectory,
  place: Pick<TokenSample, "group" | "trajectory" | "domain" | "greedyReward">,
): TokenSample {
  const last = run.at(-1)!;
  const tokenIds = joinIds([last.promptIds, last.reply.tokenIds]);
  const { length } = tokenIds;
  const lossMask = new Uint8Array(length);
  const samplerLogprobs = new Float32Array(length);
  const versions = new Int32Array(length).fill(-1);
  const rewards = new Float32Array(length);
  const onOldCache = new Uint8Array(length);
  for (const turn of run) {
    const { promptIds, reply } = turn;
    const start = promptIds.length;
    const stop = start + reply.tokenIds.length;
    lossMask.fill(1, start, stop);
    samplerLogprobs.set(reply.samplerLogprobs, start);
    versions.set(reply.versions, start);
    reply.cacheVersions.forEach((version, i) => {
      onOldCache[start + i] = version < reply.versions[i]! ? 1 : 0;
    });
    rewards[stop - 1] = rewardOf.get(turn)!;
  }
  const turn = turns.indexOf(run[0]!);
  return {
    ...place,
    tokenIds,
    lossMask,
    samplerLogprobs,
    versions,
    ...(onOldCache.includes(1) && { onOldCache }),
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
