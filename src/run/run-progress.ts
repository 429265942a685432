/** What happens around the steps of a loop: recording, validation, the best checkpoint, early stop. */
import { join } from "node:path";
import type { Metrics } from "../flow/metrics.ts";
import type { LoopObserver, LoopPosition } from "../loops/loop-parts.ts";
import type { Rollout } from "../rollout/rollout-report.ts";
import type { Trainer } from "../training/trainer.ts";
import type { Checkpoints, LoopState } from "./checkpoint.ts";
import type { RunConfig } from "./run-config.ts";
import type { RunRecorder } from "./run-recorder.ts";
import type { TrainResult } from "./train-run.ts";
import type { Validate } from "./validation.ts";

export interface ProgressParts {
  readonly config: RunConfig;
  readonly trainer: Trainer;
  readonly recorder: RunRecorder;
  readonly checkpoints: Checkpoints;
  readonly validate: Validate | null;
  /** Where rollout and replay stand. */
  readonly position: () => Pick<LoopState, "rollout" | "replay">;
  readonly signal: AbortSignal;
  readonly saved: LoopState | null;
}

export class RunProgress implements LoopObserver {
  readonly #parts: ProgressParts;
  #best: LoopState["best"];
  #numWithoutBetter: number;
  #lastMetrics: Metrics = {};
  #validatedStep = -1;
  #savedStep: number;
  #savedFolder = "";

  constructor(parts: ProgressParts) {
    this.#parts = parts;
    this.#best = parts.saved?.best ?? null;
    this.#numWithoutBetter = parts.saved?.numWithoutBetter ?? 0;
    this.#savedStep = parts.saved?.step ?? -1;
  }

  async onStart(position: LoopPosition): Promise<void> {
    if (this.#parts.saved !== null) return;
    await this.#validate(position);
    if (this.#parts.config.checkpoint.every > 0) await this.#save(position);
  }

  async onRollout(step: number, rollout: Rollout): Promise<void> {
    this.#parts.recorder.recordRollout(step, "train", rollout);
  }

  async onStep(position: LoopPosition, metrics: Metrics): Promise<"continue" | "stop"> {
    const { config, recorder, signal } = this.#parts;
    this.#lastMetrics = metrics;
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
    const { metrics, rollout } = await validate(position.version, signal);
    this.#validatedStep = position.step;
    recorder.log(position.step, "validation", metrics);
    recorder.recordRollout(position.step, "validation", rollout);
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
    if (this.#savedStep === position.step && this.#savedFolder !== "") return;
    const { trainer, checkpoints } = this.#parts;
    const state: LoopState = {
      step: position.step,
      version: position.version,
      ...this.#parts.position(),
      best: this.#best,
      numWithoutBetter: this.#numWithoutBetter,
    };
    this.#savedFolder = await checkpoints.save(trainer, state);
    this.#savedStep = position.step;
  }

  #isOver(): boolean {
    const { stopAt, patience } = this.#parts.config.validation ?? { stopAt: null, patience: null };
    const isReached = stopAt !== null && this.#best !== null && this.#best.value >= stopAt;
    return isReached || (patience !== null && this.#numWithoutBetter >= patience);
  }
}
