/** Supervised steps on given samples: warm starts and fine-tuning. */
import type { Metrics } from "../flow/metrics.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import type { SupervisedTraining } from "../training/trainer.ts";

interface SupervisedParts {
  readonly trainer: Pick<SupervisedTraining, "step">;
  /** The samples of the next update. */
  readonly next: () => Promise<readonly TokenSample[]>;
  readonly onStep: (step: number, metrics: Metrics) => Promise<"continue" | "stop">;
}

export async function runSupervisedLoop(
  { trainer, next, onStep }: SupervisedParts,
  startStep: number,
  numSteps: number,
  signal: AbortSignal,
): Promise<number> {
  let step = startStep;
  while (step < numSteps && !signal.aborted) {
    const { metrics } = await trainer.step(await next());
    step++;
    if ((await onStep(step, metrics)) === "stop") break;
  }
  return step;
}
