/** Runs side by side, as text: a list of them, and where they differ. Pure. */

import type { ReadRun } from "../tracking/read-run.ts";
import type { MetricRecord, RunInfo } from "../tracking/run-record.ts";
import { leavesOf } from "./leaves-of.ts";
import { textTable } from "./text-table.ts";

/** How far a run has come. */
interface RunProgress {
  /** The last step with metrics; 0 before the first. */
  readonly reachedStep: number;
  /** Mean reward of the last training step; null where the run has no rewards. */
  readonly lastReward: number | null;
  /** The best of all training steps. */
  readonly bestReward: number | null;
}

/** A run in a list. */
interface ListedRun extends RunProgress {
  readonly folder: string;
  readonly info: RunInfo;
}

/** Rewards of training: those of trajectories, or in control runs the returns of episodes. */
export function runProgress(metrics: readonly MetricRecord[]): RunProgress {
  const steps = metrics.filter(({ kind }) => kind === "train");
  const name = steps.some((record) => "reward/mean" in record.metrics) ? "reward/mean" : "episode/return";
  const rewards = steps.map((record) => record.metrics[name] ?? Number.NaN).filter(Number.isFinite);
  return {
    reachedStep: metrics.reduce((last, { kind, step }) => (kind === "supervised" ? last : Math.max(last, step)), 0),
    lastReward: rewards.at(-1) ?? null,
    bestReward: rewards.reduce<number | null>((best, reward) => Math.max(best ?? reward, reward), null),
  };
}

/** One line per run, the newest first as they come. */
export function listTable(runs: readonly ListedRun[]): string {
  if (runs.length === 0) return "There are no runs here.";
  const rows = runs.map(({ folder, info, reachedStep, lastReward, bestReward }) => [
    folder,
    info.status,
    info.startedAt.slice(0, 16).replace("T", " "),
    `${reachedStep}/${info.numSteps}`,
    rounded(lastReward),
    rounded(bestReward),
    info.recipe,
    info.model,
    info.tags.join(","),
  ]);
  return textTable([["folder", "status", "started", "steps", "reward", "best", "recipe", "model", "tags"], ...rows]);
}

function rounded(value: number | null): string {
  return value === null ? "-" : String(Number(value.toPrecision(4)));
}

/** Keys whose values differ, then the last value of every metric that all runs have. */
export function compareTable(runs: readonly ReadRun[]): string {
  const names = runs.map(({ folder }) => folder);
  const configs = runs.map(
    ({ config }) => new Map(leavesOf(asObject(config)).map(({ key, value }) => [key, JSON.stringify(value)])),
  );
  const keys = [...new Set(configs.flatMap((config) => [...config.keys()]))];
  const differing = keys.filter((key) => new Set(configs.map((config) => config.get(key))).size > 1);
  const lasts = runs.map(lastValues);
  const shared = [...(lasts[0]?.keys() ?? [])].filter((name) => lasts.every((last) => last.has(name)));
  return textTable([
    ["", ...names],
    ...differing.map((key) => [key, ...configs.map((config) => config.get(key) ?? "-")]),
    ["", ...names.map(() => "")],
    ...shared.sort().map((name) => [name, ...lasts.map((last) => String(Number(last.get(name)!.toPrecision(5))))]),
  ]);
}

/** The last value of each metric. Supervised steps are left out. */
function lastValues({ metrics }: ReadRun): ReadonlyMap<string, number> {
  const last = new Map<string, number>();
  for (const record of metrics) {
    if (record.kind === "supervised") continue;
    for (const [name, value] of Object.entries(record.metrics)) last.set(name, value);
  }
  return last;
}

function asObject(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}
