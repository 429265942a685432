/** What the console knows of a run. Plain data, changed by pure functions; the renderers read nothing else. */
import type { Metrics } from "../flow/metrics.ts";
import type { MetricRecord, RunStatus, WarningRecord, Worker } from "./run-record.ts";
import type { Activity } from "./span-recorder.ts";

/** Everything that the renderers show. */
export interface ConsoleState {
  readonly name: string;
  readonly folder: string;
  readonly status: RunStatus;
  readonly error: string | null;
  /** Step that this process started after; above 0 when it resumes. */
  readonly startStep: number;
  readonly step: number;
  readonly numSteps: number;
  /** The last step of the warm start while it goes on; null before and after. */
  readonly warmStep: number | null;
  readonly numWarmSteps: number;
  readonly startedMs: number;
  /** When the first step after the warm start could begin: the start of the run if there is none. */
  readonly trainedFromMs: number;
  /** When the last step ended. */
  readonly steppedMs: number;
  /** Metrics of the last step, whatever its kind. */
  readonly latest: Metrics;
  readonly rewards: readonly number[];
  readonly successes: readonly number[];
  readonly bestValidation: BestValidation | null;
  readonly numWarnings: number;
  /** The latest warnings, the newest last. */
  readonly warnings: readonly WarningRecord[];
  readonly activities: ReadonlyMap<Worker, Activity>;
}

/** The highest mean reward that a validation of this process has found. */
interface BestValidation {
  readonly step: number;
  readonly reward: number;
}

/** Values that a sparkline is drawn from. */
const MAX_VALUES = 512;
const MAX_WARNINGS = 3;

/** The metric that validation is judged by. */
const VALIDATION_REWARD = "validation/reward/mean";

/** A run that has not taken a step yet. */
export function startState(
  run: Pick<ConsoleState, "name" | "folder" | "startStep" | "numSteps"> & { readonly numWarmSteps?: number },
  nowMs: number,
): ConsoleState {
  return {
    numWarmSteps: 0,
    ...run,
    status: "running",
    error: null,
    step: run.startStep,
    warmStep: null,
    startedMs: nowMs,
    trainedFromMs: nowMs,
    steppedMs: nowMs,
    latest: {},
    rewards: [],
    successes: [],
    bestValidation: null,
    numWarnings: 0,
    warnings: [],
    activities: new Map(),
  };
}

/** The state after metrics came in. Validations come after a warm start, and change nothing else but the best one. */
export function withRecord(state: ConsoleState, { step, timeMs, kind, metrics }: MetricRecord): ConsoleState {
  if (kind === "validation") {
    const reward = metrics[VALIDATION_REWARD];
    const isBetter = reward !== undefined && reward > (state.bestValidation?.reward ?? Number.NEGATIVE_INFINITY);
    return { ...state, warmStep: null, ...(isBetter && { bestValidation: { step, reward } }) };
  }
  if (kind === "supervised")
    return { ...state, warmStep: step, steppedMs: timeMs, trainedFromMs: timeMs, latest: metrics };
  return {
    ...state,
    step,
    warmStep: null,
    steppedMs: timeMs,
    latest: metrics,
    rewards: pushed(state.rewards, metrics["reward/mean"]),
    successes: pushed(state.successes, metrics["env/success"]),
  };
}

/** The state after a warning; the oldest one shown goes. */
export function withWarning(state: ConsoleState, warning: WarningRecord): ConsoleState {
  const warnings = [...state.warnings, warning].slice(-MAX_WARNINGS);
  return { ...state, warnings, numWarnings: state.numWarnings + 1 };
}

/** Time until the last step, of the warm start or of training, at the pace so far; undefined before the first. */
export function timeLeftMs(state: ConsoleState): number | undefined {
  const { step, startStep, numSteps, warmStep, numWarmSteps, startedMs, trainedFromMs, steppedMs } = state;
  const left = (numDone: number, numLeft: number, fromMs: number) =>
    numDone <= 0 ? undefined : ((steppedMs - fromMs) / numDone) * numLeft;
  return warmStep === null
    ? left(step - startStep, numSteps - step, trainedFromMs)
    : left(warmStep, numWarmSteps - warmStep, startedMs);
}

function pushed(values: readonly number[], value: number | undefined): readonly number[] {
  return value === undefined ? values : [...values, value].slice(-MAX_VALUES);
}
