/** What lies in a run's folder, as types: one for each file. Written by `RunFolder`, read by `read-run.ts`. */
import type { Metrics } from "../flow/metrics.ts";

/** `run.json`: what a list of runs shows. */
export interface RunInfo {
  readonly id: string;
  readonly name: string;
  readonly status: RunStatus;
  /** Why it failed, or that its process died; null otherwise. */
  readonly error: string | null;
  /** The process that runs it, and the machine. */
  readonly pid: number;
  readonly host: string;
  /** Start and end as ISO times. */
  readonly startedAt: string;
  readonly endedAt: string | null;
  /** Number of steps that the run is to take. */
  readonly numSteps: number;
  readonly recipe: string;
  readonly model: string;
  /** The digest of the model in a folder that the run started from; null where it drew its own weights. */
  readonly modelDigest: string | null;
  /** How its engines decode on a GPU, in words; null on the CPU, and where there are none. */
  readonly decoding: string | null;
  readonly tags: readonly string[];
  readonly seed: number;
  /** The reroll version that wrote the run. */
  readonly version: string;
  /** The `--set` words that it was started and resumed with; `key=[secret]` where one held a secret. */
  readonly sets: readonly string[];
}

/** State of a run. An interrupted run ended without having finished or failed. */
export type RunStatus = "running" | "finished" | "failed" | "interrupted";

/** A line of `metrics.jsonl`. */
export interface MetricRecord {
  readonly step: number;
  /** On the run's clock: milliseconds since 1970. */
  readonly timeMs: number;
  readonly kind: MetricKind;
  /** NaN and the infinities are written as text, because JSON has no number for them; reading gives numbers back. */
  readonly metrics: Metrics;
}

/** What kind of step a record belongs to. Supervised steps are counted on their own. */
export type MetricKind = "train" | "validation" | "supervised";

/** A line of `spans.jsonl`: a stretch of time in which a worker did something. */
export interface SpanRecord {
  /** One of the kinds below, or a single worker by its name in `workers.json`. */
  readonly worker: string;
  readonly stage: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly step: number;
}

/** Who does the work of a run, all of a kind together. */
export type Worker = (typeof workers)[number];
/** All kinds, in the order in which they are shown. */
export const workers = ["engine", "environments", "rewards", "trainer", "loop"] as const;

/** A line of `warnings.jsonl`. */
export interface WarningRecord {
  readonly step: number;
  readonly timeMs: number;
  /** Stable, such as `equal-rewards`. */
  readonly code: string;
  /** What is wrong, in words. */
  readonly text: string;
  /** Where it is explained; null where there is no more to say. */
  readonly link: string | null;
}

/** The names of everything in a run's folder. */
export const runFiles = {
  info: "run.json",
  config: "config.json",
  metrics: "metrics.jsonl",
  spans: "spans.jsonl",
  workers: "workers.json",
  warnings: "warnings.jsonl",
  log: "log.txt",
  trajectories: "trajectories",
  checkpoints: "checkpoints",
  tensorboard: "tensorboard",
} as const;

/** The file of a step's trajectories. */
export function trajectoryFile(step: number): string {
  return `step-${String(step).padStart(6, "0")}.jsonl`;
}
