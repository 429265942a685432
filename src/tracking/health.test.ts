import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Metrics } from "../flow/metrics.ts";
import { checkHealth, HealthMonitor, healthCodes, healthLink } from "./health.ts";

const repeat = (metrics: Metrics, count = 5) => Array.from({ length: count }, () => metrics);
const codes = (history: readonly Metrics[], limits = {}) => checkHealth(history, limits).map(({ code }) => code);

/** A run with nothing wrong in it. */
const well: Metrics = {
  "rollout/equal_reward_share": 0.3,
  "rollout/failed_share": 0.01,
  "rollout/truncated_share": 0.1,
  "rollout/cut_replies": 0.1,
  "rollout/groups": 32,
  "rollout/stale_groups": 1,
  "rollout/staleness": 1,
  "policy/entropy": 0.8,
  "policy/clip_fraction": 0.1,
  "policy/anchor_kl": 0.001,
  "rollout_corr/rollout_is_mean": 1,
  "rollout_corr/rollout_is_eff_sample_size": 0.95,
  "rollout_corr/kl": 0.001,
  "train/sampler_gap": 0.004,
  "train/grad_norm": 0.5,
  "idle/engine": 0.2,
  "idle/trainer": 0.4,
};

test("a run that is well has no warnings", () => {
  const limits = { maxStaleness: 4, maxReplyTokens: 1024 };
  const history = repeat(well, 60).map((metrics, i) => ({ ...metrics, "reward/mean": i / 60 }));
  expect(checkHealth(history, limits)).toEqual([]);
  expect(checkHealth([], limits)).toEqual([]);
});

test.each([
  ["equal-rewards", { "rollout/equal_reward_share": 0.95 }],
  ["failures", { "rollout/failed_share": 0.25 }],
  ["truncation", { "rollout/truncated_share": 0.6 }],
  ["sampler-gap", { "rollout_corr/rollout_is_mean": 0.4 }],
  ["sampler-gap", { "rollout_corr/rollout_is_mean": 2.1 }],
  ["sampler-gap", { "rollout_corr/rollout_is_eff_sample_size": 0.2 }],
  ["sampler-gap", { "rollout_corr/kl": -0.2 }],
  ["sampler-gap", { "train/sampler_gap": 0.3 }],
  ["reference-kl", { "score/reference_kl": 0.2 }],
  ["policy-jump", { "policy/anchor_kl": 0.2 }],
  ["bad-gradient", { "train/grad_norm": Number.NaN }],
  ["bad-gradient", { "train/grad_norm": 2000 }],
  ["clipping", { "policy/clip_fraction": 0.6 }],
  ["staleness", { "rollout/staleness": 3.8 }],
  ["staleness", { "rollout/stale_groups": 8 }],
  ["engine-idle", { "idle/engine": 0.9 }],
  ["trainer-idle", { "idle/trainer": 0.9 }],
  ["reply-length", { "rollout/cut_replies": 0.6 }],
] as const)("%s is found in %j, and nothing else", (code, changed) => {
  const history = repeat({ ...well, ...changed });
  expect(codes(history, { maxStaleness: 4, maxReplyTokens: 1024 })).toEqual([code]);
});

test("a share is that of the last five steps, and of at least three", () => {
  const high = { "rollout/truncated_share": 1 };
  const low = { "rollout/truncated_share": 0 };
  expect(codes([high, high])).toEqual([]);
  expect(codes([low, low, high, high, high])).toEqual(["truncation"]);
  expect(codes([high, high, high, low, low, low, high, high])).toEqual([]);
});

test("entropy collapses when it falls to a tenth of what it was", () => {
  const entropies = (from: number, to: number) => [
    ...repeat({ "policy/entropy": from }),
    ...repeat({ "policy/entropy": to }),
  ];
  expect(codes(entropies(1, 0.09))).toEqual(["entropy-collapse"]);
  expect(codes(entropies(1, 0.2))).toEqual([]);
  expect(codes(entropies(0.02, 0.009))).toEqual(["entropy-collapse"]);
});

test("a gradient is huge beside its own median", () => {
  const norms = [0.5, 0.4, 0.6, 0.5, 0.5, 60].map((norm) => ({ "train/grad_norm": norm }));
  expect(checkHealth(norms)[0]?.text).toMatch(/^The norm of the gradient is 60, where 0.5 is usual\./);
  expect(codes(norms.slice(0, 5))).toEqual([]);
});

test("a reward is flat when it does not move for as many steps as are given", () => {
  expect(codes(repeat({ "reward/mean": 0 }, 20), { flatSteps: 20 })).toEqual(["flat-reward"]);
  expect(codes(repeat({ "reward/mean": 0 }, 19), { flatSteps: 20 })).toEqual([]);
  expect(codes([{ "reward/mean": 0.1 }, ...repeat({ "reward/mean": 0 }, 19)], { flatSteps: 20 })).toEqual([]);
});

test("a warning reads as a sentence with its number", () => {
  const [warning] = checkHealth(repeat({ "rollout/equal_reward_share": 0.96 }));
  expect(warning).toEqual({
    code: "equal-rewards",
    text: "96 % of groups have equal rewards, and so teach nothing: the task is too easy or too hard for this policy. Change its difficulty, raise the group size, or filter groups.",
    link: "docs/guides/runs.md#equal-rewards",
  });
});

test("a warning comes once, and again only after ten steps without it", () => {
  const monitor = new HealthMonitor();
  const bad = { "rollout/failed_share": 1 };
  const good = { "rollout/failed_share": 0 };
  const steps = [...repeat(bad, 8), ...repeat(good, 8), ...repeat(bad, 8), ...repeat(good, 16), ...repeat(bad, 8)];
  const warned = steps.flatMap((metrics, step) => monitor.add(metrics).map(({ code }) => [step, code]));
  // The mean over five steps falls to the limit at the fourth well step: the first gap is well for five steps, the second for 13.
  expect(warned).toEqual([
    [2, "failures"],
    [41, "failures"],
  ]);
});

test("an entropy that falls slowly is compared with that of the first step", () => {
  const monitor = new HealthMonitor();
  const warned = Array.from({ length: 300 }, (_, step) => step).filter(
    (step) => monitor.add({ "policy/entropy": 2 * 0.99 ** step }).length > 0,
  );
  // 0.99^229 is 0.1; the mean over the last five steps gets below it two steps later.
  expect(warned).toEqual([232]);
});

test("every code is a heading of the guide", () => {
  const guide = readFileSync(new URL("../../docs/guides/runs.md", import.meta.url), "utf8");
  for (const code of healthCodes) {
    expect(guide).toContain(`### ${code}\n`);
    expect(healthLink(code)).toBe(`docs/guides/runs.md#${code}`);
  }
});
