/**
 * The loop: roll out, train, publish, again.
 *
 * The same order serves synchronous and asynchronous runs. If the scheduler starts groups only when they are asked for,
 * rollout and training take turns, and every token is trained on by the weights that drew it. If it runs ahead, `take`
 * returns what is ready while the next groups are being sampled; new weights are published in flight, and every token
 * carries the version that drew it. The scheduler's admission decides how far it runs ahead, and it drops what has
 * become too old.
 *
 * Weights are numbered by the training steps that made them: version 4 is what step 4 left behind, published or not.
 * The staleness of a token is then the difference of two numbers, whatever the interval between publications, and needs
 * no record to be resumed.
 */
import type { LoopParts, LoopPosition } from "./loop-parts.ts";

export interface LoopOptions {
  readonly numSteps: number;
  /** Training steps between two publications. Default 1. */
  readonly syncInterval?: number;
}

/**
 * Runs from the step after `start` to `numSteps`. Resolves with where it stopped, and with the weights of that step published
 * unless the signal has ended the run.
 */
export async function runRolloutLoop(
  { rollout, experience, trainer, sync, observer, groupsPerStep }: LoopParts,
  start: Pick<LoopPosition, "step">,
  { numSteps, syncInterval = 1 }: LoopOptions,
  signal: AbortSignal,
): Promise<LoopPosition> {
  let { step } = start;
  // Of a run that goes on between two publications too: the weights it samples with are those it was saved with.
  let version = step;
  // Before the first rollout, so that a broken transport fails at the start and not after an hour of sampling.
  await sync.publish(version);
  rollout.setProgress(step, version);
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  while (step < numSteps) {
    const sampled = await rollout.take(groupsPerStep, signal);
    if (sampled.groups.length === 0) break;
    await observer.onRollout?.(step + 1, sampled);
    const { batch, metrics: built } = experience.build(sampled.groups, step);
    const report = await trainer.step(batch);
    experience.onTrained?.(report);
    step++;
    const isDue = step % syncInterval === 0 || step === numSteps;
    if (isDue) version = step;
    const published = isDue ? await sync.publish(version) : {};
    rollout.setProgress(step, version);
    const metrics = { ...sampled.metrics, ...built, ...report.metrics, ...published };
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  if (version === step || signal.aborted) return { step, version };
  // Prompts that ended between two publications: what the run leaves behind is what can be measured of it.
  await sync.publish(step);
  return { step, version: step };
}
