/** What happens around the steps of a loop: metrics, validation, the best checkpoint, early stop. */
import { join } from "node:path";
import type { Metrics } from "../flow/metrics.ts";
import type { LoopObserver, LoopPosition } from "../loops/loop-parts.ts";
import type { Checkpoint, Checkpoints, LoopState, SavedTrainer } from "./checkpoint.ts";
import type { RunConfig } from "./run-config.ts";
import type { RunRecorder } from "./run-recorder.ts";
import type { TrainResult } from "./train-run.ts";
import type { Validate } from "./validation.ts";

/** When to validate and save. */
interface ProgressConfig {
  readonly validation: Pick<NonNullable<RunConfig["validation"]>, "every" | "metric" | "stopAt" | "patience"> | null;
  readonly checkpoint: Pick<RunConfig["checkpoint"], "every">;
}

interface ProgressParts {
  readonly config: ProgressConfig;
  readonly trainer: SavedTrainer;
  readonly recorder: RunRecorder;
  readonly checkpoints: Checkpoints;
  readonly validate: Validate | null;
  /** Where rollout and replay stand. */
  readonly position: () => Pick<LoopState, "rollout" | "replay">;
  readonly signal: AbortSignal;
  /** What the run goes on from; null at its start. */
  readonly saved: Checkpoint | null;
}

export class RunProgress implements LoopObserver {
  readonly #parts: ProgressParts;
  #best: LoopState["best"];
  #numWithoutBetter: number;
  #lastMetrics: Metrics = {};
  #validatedStep: number;
  #savedFolder: string;
  /** Whether the latest checkpoint lacks something. */
  #isUnsaved: boolean;

  constructor(parts: ProgressParts) {
    const { saved } = parts;
    this.#parts = parts;
    this.#best = saved?.state.best ?? null;
    this.#numWithoutBetter = saved?.state.numWithoutBetter ?? 0;
    this.#validatedStep = saved?.state.validatedStep ?? -1;
    this.#savedFolder = saved?.folder ?? "";
    this.#isUnsaved = saved === null;
  }

  async onStart(position: LoopPosition): Promise<"continue" | "stop"> {
    if (this.#parts.saved === null) {
      await this.#validate(position);
      if (this.#parts.config.checkpoint.every > 0) await this.#save(position);
    }
    return this.#isOver() ? "stop" : "continue";
  }

  async onStep(position: LoopPosition, metrics: Metrics): Promise<"continue" | "stop"> {
    const { config, recorder, signal } = this.#parts;
    this.#lastMetrics = metrics;
    this.#isUnsaved = true;
    recorder.log(position.step, "train", metrics);
    const isDue = (every: number | undefined) => every !== undefined && every > 0 && position.step % every === 0;
    if (isDue(config.validation?.every)) await this.#validate(position);
    if (isDue(config.checkpoint.every)) await this.#save(position);
    return signal.aborted || this.#isOver() ? "stop" : "continue";
  }

  /** The last validation and checkpoint. */
  async finish(position: LoopPosition): Promise<TrainResult> {
    if (!this.#parts.signal.aborted) await this.#validate(position);
    await this.#save(position);
    return {
      position,
      best: this.#best,
      lastMetrics: this.#lastMetrics,
      modelFolder: join(this.#savedFolder, "model"),
    };
  }

  async #validate(position: LoopPosition): Promise<void> {
    const { config, validate, recorder, signal } = this.#parts;
    if (validate === null || config.validation === null || this.#validatedStep === position.step) return;
    const { metrics, rollout } = await recorder.span("validate", () => validate(position.version, signal));
    this.#validatedStep = position.step;
    this.#isUnsaved = true;
    recorder.log(position.step, "validation", metrics);
    if (rollout !== undefined) recorder.recordRollout(position.step, "validation", rollout);
    const value = metrics[`validation/${config.validation.metric}`] ?? Number.NEGATIVE_INFINITY;
    if (this.#best !== null && value <= this.#best.value) {
      this.#numWithoutBetter++;
      return;
    }
    this.#best = { step: position.step, value };
    this.#numWithoutBetter = 0;
    if (config.checkpoint.every > 0) await this.#save(position);
  }

  async #save(position: LoopPosition): Promise<void> {
    if (!this.#isUnsaved) return;
    const { trainer, checkpoints, recorder } = this.#parts;
    // What leads up to a checkpoint is not told again by a run that goes on from it.
    await recorder.flush?.();
    const state: LoopState = {
      step: position.step,
      version: position.version,
      ...this.#parts.position(),
      best: this.#best,
      numWithoutBetter: this.#numWithoutBetter,
      validatedStep: this.#validatedStep,
    };
    this.#savedFolder = await recorder.span("checkpoint", () => checkpoints.save(trainer, state));
    this.#isUnsaved = false;
  }

  #isOver(): boolean {
    const { stopAt, patience } = this.#parts.config.validation ?? { stopAt: null, patience: null };
    const isReached = stopAt !== null && this.#best !== null && this.#best.value >= stopAt;
    return isReached || (patience !== null && this.#numWithoutBetter >= patience);
  }
}
