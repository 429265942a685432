/** What happens around the steps of a loop: metrics, validation, the best checkpoint, early stop. */
import { join } from "node:path";
import type { Clock } from "../flow/clock.ts";
import { describeMetric, type Metrics } from "../flow/metrics.ts";
import type { LoopObserver, LoopPosition } from "../loops/loop-parts.ts";
import type { RunTracker } from "../tracking/run-tracker.ts";
import type { Checkpoint, Checkpoints, LoopState, SavedTrainer } from "./checkpoint.ts";
import type { RunConfig } from "./run-config.ts";
import type { TrainResult } from "./train-run.ts";
import type { Validate } from "./validation.ts";

/** How often to validate and save. */
interface ProgressConfig {
  readonly validation: Pick<NonNullable<RunConfig["validation"]>, "every" | "metric" | "stopAt" | "patience"> | null;
  readonly checkpoint: Pick<RunConfig["checkpoint"], "every" | "minutes">;
}

interface ProgressParts {
  readonly config: ProgressConfig;
  readonly trainer: SavedTrainer;
  readonly tracker: RunTracker;
  readonly checkpoints: Pick<Checkpoints, "save" | "settled" | "expectWritten">;
  readonly validate: Validate | null;
  /** Position of rollout and replay, for checkpoints. */
  readonly position: () => Pick<LoopState, "rollout" | "replay">;
  readonly signal: AbortSignal;
  /** Checkpoints that are due by time are due by this clock. */
  readonly clock: Clock;
  /** The checkpoint that the run resumed from; null for a new run. */
  readonly saved: Checkpoint | null;
}

/** Said when a run resumes. One that has reached its last step learns how to train on. */
export function goingOn(step: number, numSteps: number): string {
  if (step < numSteps) return `Going on from step ${step}.`;
  return `Going on from step ${step}, the last one: loop.steps is ${numSteps}, so nothing is left to train. Set it higher to train on.`;
}

export class RunProgress implements LoopObserver {
  readonly #parts: ProgressParts;
  #best: LoopState["best"];
  #numWithoutBetter: number;
  #lastMetrics: Metrics = {};
  #validatedStep: number;
  #savedFolder: string;
  /** Whether something has changed since the latest checkpoint. */
  #isUnsaved: boolean;
  #savedMs: number;

  constructor(parts: ProgressParts) {
    const { saved } = parts;
    this.#parts = parts;
    const { metric } = saved?.state ?? {};
    // Values of another metric say nothing about this one.
    const isSameMetric = metric === undefined || metric === (parts.config.validation?.metric ?? metric);
    this.#best = isSameMetric ? (saved?.state.best ?? null) : null;
    this.#numWithoutBetter = isSameMetric ? (saved?.state.numWithoutBetter ?? 0) : 0;
    this.#validatedStep = saved?.state.validatedStep ?? -1;
    this.#savedFolder = saved?.folder ?? "";
    this.#isUnsaved = saved === null;
    this.#savedMs = parts.clock();
  }

  async onStart(position: LoopPosition): Promise<"continue" | "stop"> {
    if (this.#parts.saved === null) {
      await this.#validate(position);
      if (this.#savesOnTheWay) await this.#save(position);
    }
    return this.#isOver() ? "stop" : "continue";
  }

  async onStep(position: LoopPosition, metrics: Metrics): Promise<"continue" | "stop"> {
    const { tracker, signal } = this.#parts;
    this.#parts.checkpoints.expectWritten();
    this.#lastMetrics = metrics;
    this.#isUnsaved = true;
    tracker.log(position.step, "train", metrics);
    if (this.#isValidationDue(position)) await this.#validate(position);
    if (this.#isCheckpointDue(position)) await this.#save(position);
    return signal.aborted || this.#isOver() ? "stop" : "continue";
  }

  /** The last validation and checkpoint. */
  async finish(position: LoopPosition): Promise<TrainResult> {
    if (!this.#parts.signal.aborted) await this.#validate(position);
    await this.#save(position);
    await this.#parts.checkpoints.settled();
    return {
      position,
      best: this.#best,
      lastMetrics: this.#lastMetrics,
      modelFolder: join(this.#savedFolder, "model"),
    };
  }

  /** A validation measures the weights that were published last: one that falls due in between waits until they are the run's own. */
  #isValidationDue({ step, version }: LoopPosition): boolean {
    const every = this.#parts.config.validation?.every ?? 0;
    if (every === 0 || version !== step) return false;
    return Math.floor(step / every) > Math.floor(Math.max(0, this.#validatedStep) / every);
  }

  async #validate(position: LoopPosition): Promise<void> {
    const { config, validate, tracker, signal } = this.#parts;
    if (validate === null || config.validation === null || this.#validatedStep === position.step) return;
    const { metrics, rollout } = await tracker.span("validate", () => validate(position.version, signal));
    this.#validatedStep = position.step;
    this.#isUnsaved = true;
    tracker.log(position.step, "validation", metrics);
    if (rollout !== undefined) tracker.recordRollout(position.step, "validation", rollout);
    const value = metrics[`validation/${config.validation.metric}`] ?? Number.NaN;
    if (!this.#isBetter(value)) {
      this.#numWithoutBetter++;
      return;
    }
    this.#best = { step: position.step, value };
    this.#numWithoutBetter = 0;
    if (this.#savesOnTheWay) await this.#save(position);
  }

  /** What is not a number, or was not measured, is never the best. */
  #isBetter(value: number): boolean {
    if (!Number.isFinite(value)) return false;
    return this.#best === null || this.#direction * value > this.#direction * this.#best.value;
  }

  /** 1 where a larger value of the metric is better, -1 where a smaller one is. */
  get #direction(): 1 | -1 {
    return describeMetric(`validation/${this.#parts.config.validation?.metric}`)?.better === "lower" ? -1 : 1;
  }

  get #savesOnTheWay(): boolean {
    const { every, minutes } = this.#parts.config.checkpoint;
    return every > 0 || minutes !== null;
  }

  #isCheckpointDue({ step }: LoopPosition): boolean {
    const { config, clock } = this.#parts;
    const { every, minutes } = config.checkpoint;
    if (every > 0 && step % every === 0) return true;
    return minutes !== null && clock() - this.#savedMs >= 60_000 * minutes;
  }

  async #save(position: LoopPosition): Promise<void> {
    if (!this.#isUnsaved) return;
    const { trainer, checkpoints, tracker } = this.#parts;
    // What leads up to a checkpoint is not told again by a run that goes on from it.
    await tracker.flush();
    const state: LoopState = {
      step: position.step,
      version: position.version,
      ...this.#parts.position(),
      best: this.#best,
      metric: this.#parts.config.validation?.metric ?? this.#parts.saved?.state.metric,
      numWithoutBetter: this.#numWithoutBetter,
      validatedStep: this.#validatedStep,
    };
    this.#savedFolder = await tracker.span("checkpoint", () => checkpoints.save(trainer, state));
    this.#isUnsaved = false;
    this.#savedMs = this.#parts.clock();
  }

  #isOver(): boolean {
    const { stopAt, patience } = this.#parts.config.validation ?? { stopAt: null, patience: null };
    const isReached =
      stopAt !== null && this.#best !== null && this.#direction * this.#best.value >= this.#direction * stopAt;
    return isReached || (patience !== null && this.#numWithoutBetter >= patience);
  }
}
