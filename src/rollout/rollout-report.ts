/** What happened to every sample that was started: counts, reasons, and the numbers that a run shows. */
import type { Metrics } from "../flow/metrics.ts";
import type { Trajectory, TrajectoryGroup, Turn } from "../flow/trajectory.ts";
import { hasEqualRewards } from "./group-filter.ts";

/** The result of one call of `take`. */
export interface Rollout {
  readonly groups: readonly TrajectoryGroup[];
  readonly report: RolloutReport;
  readonly metrics: Metrics;
}

/** Everything that was started and is not in the groups. */
export interface RolloutReport {
  readonly failed: readonly Trajectory[];
  /** Groups that a filter dropped, with the reason. */
  readonly filtered: readonly { readonly group: TrajectoryGroup; readonly reason: string }[];
  /** Groups given up because too many of their samples failed. */
  readonly numGivenUp: number;
  /** Groups that became too old to be trained on, on their way or while they waited. */
  readonly numStale: number;
  /** Number of samples that were ended early because they were no longer needed. */
  readonly numAborted: number;
  /** Prompts left out because they do not fit the context. */
  readonly numDroppedPrompts: number;
}

/** Collects what happens between two deliveries. */
export class ReportBuilder {
  #failed: Trajectory[] = [];
  #filtered: { group: TrajectoryGroup; reason: string }[] = [];
  #numGivenUp = 0;
  #numStale = 0;
  #numAborted = 0;
  #numDroppedPrompts = 0;

  get numFiltered(): number {
    return this.#filtered.length;
  }

  addEnd(trajectory: Trajectory): void {
    if (trajectory.end.kind === "failed") this.#failed.push(trajectory);
    if (trajectory.end.kind === "aborted") this.#numAborted++;
  }

  addFiltered(group: TrajectoryGroup, reason: string): void {
    this.#filtered.push({ group, reason });
  }

  addGivenUp(): void {
    this.#numGivenUp++;
  }

  addStale(): void {
    this.#numStale++;
  }

  addDroppedPrompt(): void {
    this.#numDroppedPrompts++;
  }

  /** The report since the last one. */
  take(): RolloutReport {
    const report = {
      failed: this.#failed,
      filtered: this.#filtered,
      numGivenUp: this.#numGivenUp,
      numStale: this.#numStale,
      numAborted: this.#numAborted,
      numDroppedPrompts: this.#numDroppedPrompts,
    };
    this.#failed = [];
    this.#filtered = [];
    this.#numGivenUp = this.#numStale = this.#numAborted = this.#numDroppedPrompts = 0;
    return report;
  }
}

/** The numbers of a rollout, when `step` training steps are done. Rewards and environment metrics are means over the trajectories delivered and filtered. */
export function rolloutMetrics(groups: readonly TrajectoryGroup[], report: RolloutReport, step: number): Metrics {
  const delivered = groups.flatMap((group) => group.trajectories);
  const seen = [...delivered, ...report.filtered.flatMap(({ group }) => group.trajectories)];
  const greedy = groups.flatMap((group) => group.greedy ?? []);
  const turns = delivered.flatMap((trajectory) => trajectory.turns);
  const replyTokens = delivered.map(({ turns: own }) => own.reduce((sum, turn) => sum + turn.reply.tokenIds.length, 0));
  const staleness = turns.map(({ reply }) => step - (reply.versions[0] ?? step));
  const numEnded = seen.length + report.failed.length;
  const tries = delivered.flatMap(({ secondTry }) => secondTry ?? []);
  return {
    // Parts come first, so that one called "mean" does not hide the metric of that name.
    ...meansByName(
      "reward/",
      seen.map(({ reward }) => reward.parts),
    ),
    ...meansByName(
      "env/",
      seen.map(({ metrics }) => metrics),
    ),
    ...(tries.length > 0 && {
      "reflection/tries": tries.length,
      "reflection/success_share": mean(tries.map(({ isLearned }) => (isLearned ? 1 : 0))),
      "reflection/reward": mean(tries.map(({ reward }) => reward.total)),
    }),
    "rollout/groups": groups.length,
    "rollout/trajectories": delivered.length,
    ...(greedy.length > 0 && {
      "rollout/greedy_trajectories": greedy.length,
      "reward/greedy": mean(greedy.map(({ reward }) => reward.total)),
    }),
    "rollout/failed_share": numEnded === 0 ? 0 : report.failed.length / numEnded,
    "rollout/filtered_groups": report.filtered.length,
    "rollout/given_up_groups": report.numGivenUp,
    "rollout/stale_groups": report.numStale,
    "rollout/aborted_samples": report.numAborted,
    "rollout/dropped_prompts": report.numDroppedPrompts,
    "rollout/truncated_share": mean(delivered.map(({ end }) => (end.kind === "truncated" ? 1 : 0))),
    "rollout/cut_replies": mean(turns.map(({ finish }) => (finish === "length" ? 1 : 0))),
    "rollout/turns": mean(delivered.map((trajectory) => trajectory.turns.length)),
    "rollout/reply_tokens": mean(replyTokens),
    "rollout/reply_tokens_max": replyTokens.reduce((most, count) => Math.max(most, count), 0),
    "rollout/staleness": mean(staleness),
    "rollout/staleness_max": staleness.reduce((most, value) => Math.max(most, value), 0),
    ...tokenMeans(turns),
    "rollout/equal_reward_share": mean(groups.map((group) => (hasEqualRewards(group) ? 1 : 0))),
    "reward/mean": mean(seen.map(({ reward }) => reward.total)),
    "reward/max": seen.reduce((most, { reward }) => Math.max(most, reward.total), -Infinity),
    "reward/min": seen.reduce((least, { reward }) => Math.min(least, reward.total), Infinity),
    "time/generate_ms": mean(delivered.map(({ timings }) => timings.generateMs)),
    "time/env_ms": mean(delivered.map(({ timings }) => timings.envMs)),
    "time/reward_ms": mean(delivered.map(({ timings }) => timings.rewardMs)),
    "time/trajectory_ms": mean(delivered.map(({ timings }) => timings.totalMs)),
  };
}

/** Over all tokens of the turns; where a server does not say with what a token was drawn, its gap is left out. In one plain loop: there are hundreds of thousands. */
function tokenMeans(turns: readonly Turn[]): Metrics {
  let [gap, numGaps, numOld, numTokens] = [0, 0, 0, 0];
  for (const { reply } of turns) {
    const { drawLogprobs, samplerLogprobs, cacheVersions, versions } = reply;
    for (let i = 0; i < drawLogprobs.length; i++) {
      const value = drawLogprobs[i]! - samplerLogprobs[i]!;
      if (!Number.isNaN(value)) {
        gap += value;
        numGaps++;
      }
      if (cacheVersions[i]! < versions[i]!) numOld++;
    }
    numTokens += reply.tokenIds.length;
  }
  return {
    "rollout/truncation_gap": numGaps === 0 ? 0 : gap / numGaps,
    "rollout/old_cache_share": numTokens === 0 ? 0 : numOld / numTokens,
  };
}

function meansByName(prefix: string, records: readonly Readonly<Record<string, number>>[]): Metrics {
  const values = new Map<string, number[]>();
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) {
      const known = values.get(name);
      if (known === undefined) values.set(name, [value]);
      else known.push(value);
    }
  }
  return Object.fromEntries([...values].map(([name, numbers]) => [prefix + name, mean(numbers)]));
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
