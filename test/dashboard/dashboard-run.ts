/** Runs for tests of the dashboard: copies of the recorded ones, and made-up ones of any size. */
import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunInfo } from "../../src/tracking/run-record.ts";
import type { TrajectoryRecord, TurnRecord } from "../../src/tracking/trajectory-record.ts";

const recorded = fileURLToPath(new URL("../../fixtures/run", import.meta.url));

/** A folder of runs with copies of both recorded runs. */
export function copyRecordedRuns(): string {
  const root = mkdtempSync(join(tmpdir(), "reroll-dashboard-"));
  for (const name of ["sokoban", "frozen-lake"]) cpSync(join(recorded, name), join(root, name), { recursive: true });
  return root;
}

/** A run without any content but its `run.json`. */
export function writeRun(root: string, key: string, changes: Partial<RunInfo> = {}): string {
  const folder = join(root, key);
  mkdirSync(join(folder, "trajectories"), { recursive: true });
  const info: RunInfo = {
    ...{ id: key, name: key, status: "finished", error: null, pid: 0, host: "elsewhere" },
    ...{ startedAt: "2026-01-01T00:00:00.000Z", endedAt: null, numSteps: 10, recipe: "grpo", model: "nano" },
    ...{ tags: [], seed: 1, version: "0.1.0", sets: [], modelDigest: null, decoding: null },
    ...changes,
  };
  writeFileSync(join(folder, "run.json"), JSON.stringify(info));
  writeFileSync(join(folder, "config.json"), "{}");
  return folder;
}

/** A line of `metrics.jsonl`, a second after the one before. */
export function metricLine(step: number, metrics: Readonly<Record<string, number | string>>): string {
  return `${JSON.stringify({ step, timeMs: Date.UTC(2026, 0) + 1000 * step, kind: "train", metrics })}\n`;
}

/** A trajectory of one turn; ids of tokens are their places. */
export function trajectory(
  changes: Partial<TrajectoryRecord> & Pick<TrajectoryRecord, "step" | "id">,
  turn: Partial<TurnRecord> & Readonly<Record<string, unknown>> = {},
): TrajectoryRecord {
  return {
    ...{ groupId: "g", sampleIndex: 0, seed: 1, fate: "delivered", reason: null },
    prompt: { id: "p", domain: "text", messages: [], tools: [], truth: null },
    turns: [
      {
        ...{ messages: [{ role: "user", content: "Say something." }], replyText: "Something.", finish: "stop" },
        ...{ promptFrom: 0, promptIds: [1, 2], tokenIds: [3, 4, 5], samplerLogprobs: [-0.1, -2, -0.3] },
        ...{ versions: [0, 0, 0], reward: 0, stateKey: null, metrics: {}, startedMs: 0, generateMs: 1, envMs: 1 },
        ...turn,
      },
    ],
    end: { kind: "completed" },
    reward: { total: 1, score: 1, parts: {} },
    metrics: {},
    timings: { startedMs: 0, queuedMs: 0, generateMs: 1, envMs: 1, rewardMs: 0, totalMs: 2 },
    ...changes,
  };
}

/** Writes the trajectories of a step. */
export function writeTrajectories(folder: string, step: number, records: readonly TrajectoryRecord[]): void {
  const name = `step-${String(step).padStart(6, "0")}.jsonl`;
  writeFileSync(join(folder, "trajectories", name), records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}
