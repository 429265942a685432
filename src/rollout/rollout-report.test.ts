import { expect, test } from "vitest";
import { promptOf } from "../../test/rollout/episode-parts.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { describeMetric } from "../flow/metrics.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryGroup } from "../flow/trajectory.ts";
import { ReportBuilder, rolloutMetrics } from "./rollout-report.ts";

const failed: TrajectoryEnd = { kind: "failed", stage: "reward", error: new RerollError("FAILED", "no") };

test("the numbers of a rollout, worked out by hand", () => {
  const groups = [
    groupOf("0", [
      { reward: 1, parts: { exact: 1 }, turns: [[5, 5, 5]], success: 1 },
      { reward: 0, parts: { exact: 0 }, turns: [[5], [6, 7]], success: 0, isTruncated: true },
    ]),
    groupOf("1", [
      { reward: 2, parts: { exact: 2 }, turns: [[7, 7]] },
      { reward: 2, parts: { exact: 2 }, turns: [[]] },
    ]),
  ];
  const report = new ReportBuilder();
  report.addFiltered(
    groupOf("2", [{ reward: -5, parts: { exact: -5 }, turns: [[7, 7, 7, 7, 7, 7]] }]),
    "equal-rewards",
  );
  report.addEnd({ ...trajectoryOf("3-0", { reward: 0, parts: {}, turns: [] }), end: failed });
  report.addEnd({ ...trajectoryOf("3-1", { reward: 0, parts: {}, turns: [] }), end: { kind: "aborted" } });
  report.addGivenUp();
  report.addStale();
  report.addDroppedPrompt();
  const metrics = rolloutMetrics(groups, report.take(), 8);
  expect(metrics).toEqual({
    "rollout/groups": 2,
    "rollout/trajectories": 4,
    // 1 of 4 delivered, 1 filtered and 1 failed.
    "rollout/failed_share": 1 / 6,
    "rollout/filtered_groups": 1,
    "rollout/given_up_groups": 1,
    "rollout/stale_groups": 1,
    "rollout/aborted_samples": 1,
    "rollout/dropped_prompts": 1,
    "rollout/truncation_gap": 0.25,
    // The token of version 7 in the reply that began with version 6: 1 of 8.
    "rollout/old_cache_share": 0.125,
    "rollout/cut_replies": 0,
    "rollout/truncated_share": 0.25,
    "rollout/turns": 5 / 4,
    "rollout/reply_tokens": (3 + 3 + 2 + 0) / 4,
    "rollout/reply_tokens_max": 3,
    // By the first token of each of 5 replies, of which one is empty: 3, 3, 2, 1, 0.
    "rollout/staleness": 9 / 5,
    "rollout/staleness_max": 3,
    "rollout/equal_reward_share": 0.5,
    "reward/mean": (1 + 0 + 2 + 2 - 5) / 5,
    "reward/max": 2,
    "reward/min": -5,
    "reward/exact": 0,
    "env/success": 0.5,
    "time/generate_ms": 20,
    "time/env_ms": 30,
    "time/reward_ms": 40,
    "time/trajectory_ms": 100,
  });
  for (const name of Object.keys(metrics)) expect(describeMetric(name), name).toBeDefined();
});

test("a part of the reward that is called like a statistic does not hide it", () => {
  const groups = [groupOf("0", [{ reward: 3, parts: { mean: 7, max: 7 }, turns: [] }])];
  expect(rolloutMetrics(groups, new ReportBuilder().take(), 0)).toMatchObject({ "reward/mean": 3, "reward/max": 3 });
});

test("a rollout without groups has zeros, and extremes that no number can be", () => {
  expect(rolloutMetrics([], new ReportBuilder().take(), 0)).toMatchObject({
    ...{ "rollout/groups": 0, "rollout/failed_share": 0, "reward/mean": 0, "rollout/reply_tokens": 0 },
    ...{ "reward/max": -Infinity, "reward/min": Infinity },
  });
});

test("a report starts anew when it is taken", () => {
  const report = new ReportBuilder();
  report.addEnd({ ...trajectoryOf("0-0", { reward: 0, parts: {}, turns: [] }), end: failed });
  report.addStale();
  expect(report.take()).toMatchObject({ failed: [{ id: "0-0" }], numStale: 1 });
  expect(report.take()).toEqual({
    failed: [],
    filtered: [],
    numGivenUp: 0,
    numStale: 0,
    numAborted: 0,
    numDroppedPrompts: 0,
  });
});

interface Facts {
  readonly reward: number;
  readonly parts: Record<string, number>;
  /** The versions of the tokens of each turn. */
  readonly turns: readonly (readonly number[])[];
  readonly success?: number;
  readonly isTruncated?: boolean;
}

function groupOf(id: string, samples: readonly Facts[]): TrajectoryGroup {
  return { id, prompt: promptOf(0), trajectories: samples.map((facts, i) => trajectoryOf(`${id}-${i}`, facts)) };
}

function trajectoryOf(id: string, { reward, parts, turns, success, isTruncated = false }: Facts): Trajectory {
  const replies = turns.map((versions) => {
    const zeros = new Float32Array(versions.length);
    const tokenIds = new Int32Array(versions.length);
    const drawnBy = Int32Array.from(versions);
    const samplerLogprobs = zeros.map(() => -0.25);
    // Keys and values are those of the weights that the reply began with.
    const cacheVersions = drawnBy.map(() => drawnBy[0]!);
    return { tokenIds, samplerLogprobs, drawLogprobs: zeros, modelLogprobs: zeros, versions: drawnBy, cacheVersions };
  });
  return {
    ...{ id, groupId: id.split("-")[0]!, prompt: promptOf(0), sampleIndex: 0, seed: 0 },
    turns: replies.map((reply) => ({
      ...{ promptIds: Int32Array.of(1), reply, replyText: "", messages: [], finish: "stop", reward: 0, metrics: {} },
      ...{ startedMs: 0, generateMs: 0, envMs: 0 },
    })),
    end: isTruncated ? { kind: "truncated", limit: "turns" } : { kind: "completed" },
    reward: { total: reward, score: reward, parts },
    metrics: success === undefined ? {} : { success },
    timings: { startedMs: 0, queuedMs: 10, generateMs: 20, envMs: 30, rewardMs: 40, totalMs: 100 },
  };
}
