/** A run of a tiny model on FrozenLake from a run file, as `reroll train` makes it, and what it leaves in its folder. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { LoopState } from "../../src/run/checkpoint.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import type { RunInput } from "../../src/run/run-config.ts";
import { runTraining } from "../../src/run/run-training.ts";

/** What differs from the run below. */
export type LakeChanges = Partial<Omit<RunInput, "rollout" | "training">> & {
  readonly rollout?: RunInput["rollout"];
  readonly training?: Partial<RunInput["training"]>;
};

export interface LakeRun {
  readonly folder: string;
  /** What was said before the first step. */
  readonly plan: readonly string[];
  /** By step. */
  readonly train: ReadonlyMap<number, Metrics>;
  readonly validation: ReadonlyMap<number, Metrics>;
  readonly warnings: readonly { readonly code: string; readonly text: string }[];
  /** What the checkpoint of a step holds beside weights. */
  state(step: number): LoopState;
  weights(step: number): string;
  /** The versions of all tokens of a step's trajectories that were recorded. */
  versions(step: number): readonly number[];
}

/** Runs in a folder of its own, which is removed when `use` is done. */
export async function inFolder<Result>(use: (root: string) => Promise<Result>): Promise<Result> {
  const root = mkdtempSync(join(tmpdir(), "reroll-lake-"));
  try {
    return await use(root);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Trains to the end, or goes on with the run in `resume`. */
export async function trainLake(
  root: string,
  changes: LakeChanges,
  resume?: string,
  signal = new AbortController().signal,
): Promise<LakeRun> {
  const { rollout, training, ...others } = changes;
  const run = {
    name: "lake",
    device: "cpu",
    model: { preset: "nano" },
    envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 3, answerTags: null } },
    rollout: {
      ...{ groupsPerStep: 4, groupSize: 4, maxInFlight: 32, contextLength: 64, sampling: { maxTokens: 2 } },
      ...rollout,
    },
    training: { optimizer: { lr: 1e-3 }, ...training },
    engine: { threads: 1 },
    tracking: { folder: root, tensorboard: false },
    ...others,
  };
  const runFile = join(root, "run.json");
  writeFileSync(runFile, JSON.stringify(run));
  const prepared = await prepareRun(runFile, [], {});
  const { modelFolder } = await runTraining(prepared, {
    signal,
    ...(resume !== undefined && { resume }),
    ...{ version: "test", environment: {}, runFile, console: null, command: "reroll" },
  });
  return readRun(join(modelFolder, "../../.."), prepared.plan.lines);
}

function readRun(folder: string, plan: readonly string[]): LakeRun {
  const rows = readLines(join(folder, "metrics.jsonl")) as { step: number; kind: string; metrics: Metrics }[];
  const byStep = (wanted: string) =>
    new Map(rows.filter(({ kind }) => kind === wanted).map(({ step, metrics }) => [step, metrics]));
  const checkpoint = (step: number) => join(folder, "checkpoints", `step-${String(step).padStart(6, "0")}`);
  return {
    folder,
    plan,
    train: byStep("train"),
    validation: byStep("validation"),
    warnings: readLines(join(folder, "warnings.jsonl")) as LakeRun["warnings"],
    state: (step) => JSON.parse(readFileSync(join(checkpoint(step), "loop.json"), "utf8")) as LoopState,
    weights: (step) => readFileSync(join(checkpoint(step), "model/model.safetensors")).toString("hex"),
    versions: (step) => {
      const path = join(folder, "trajectories", `step-${String(step).padStart(6, "0")}.jsonl`);
      const records = readLines(path) as { turns: { versions: number[] }[] }[];
      return records.flatMap(({ turns }) => turns.flatMap(({ versions }) => versions));
    },
  };
}

function readLines(path: string): unknown[] {
  if (!existsSync(path)) return [];
  const lines = readFileSync(path, "utf8").split("\n");
  return lines.filter((line) => line !== "").map((line) => JSON.parse(line) as unknown);
}
