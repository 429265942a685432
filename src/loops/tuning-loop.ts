/** The loop of training on given examples: take a batch, learn from it, repeat. For tuning runs and warm starts. */
import type { Metrics } from "../flow/metrics.ts";
import type { TuningExample } from "../flow/tuning-example.ts";
import type { TuningTrainer } from "../training/trainer.ts";

interface TuningParts {
  readonly trainer: Pick<TuningTrainer, "step">;
  /** The examples of the update that comes after `step` of them. */
  readonly batchAfter: (step: number) => Promise<readonly TuningExample[]>;
  readonly onStep: (step: number, metrics: Metrics) => Promise<"continue" | "stop">;
}

/** Runs from the step after `startStep` to `numSteps`. Resolves with the step at which it stopped. */
export async function runTuningLoop(
  { trainer, batchAfter, onStep }: TuningParts,
  startStep: number,
  numSteps: number,
  signal: AbortSignal,
): Promise<number> {
  let step = startStep;
  while (step < numSteps && !signal.aborted) {
    const { metrics } = await trainer.step(await batchAfter(step));
    step++;
    if ((await onStep(step, metrics)) === "stop") break;
  }
  return step;
}
