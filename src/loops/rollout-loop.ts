/**
 * The loop: roll out, train, publish, again.
 *
 * One order serves both ways of running. Where the scheduler starts groups only when they are asked for, rollout and training take
 * turns and every token is of the weights that are trained on it. Where it runs ahead, `take` gives what is ready while the next
 * groups are being sampled; new weights are published in flight, and the tokens of running requests say so. How far it runs
 * ahead is the scheduler's admission; what is too old by then, it drops.
 */
import type { LoopParts, LoopPosition } from "./loop-parts.ts";

export interface LoopOptions {
  readonly numSteps: number;
  /** Training steps between two publications. Default 1. */
  readonly syncInterval?: number;
}

/** Runs from the step after `start` to `numSteps`. Resolves with where it stopped. */
export async function runRolloutLoop(
  { rollout, experience, trainer, sync, observer, groupsPerStep }: LoopParts,
  start: LoopPosition,
  { numSteps, syncInterval = 1 }: LoopOptions,
  signal: AbortSignal,
): Promise<LoopPosition> {
  let { step, version } = start;
  // Before the first rollout, so that a broken transport fails at the start and not after an hour of sampling.
  await sync.publish(version);
  rollout.setVersion(version);
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  while (step < numSteps) {
    const sampled = await rollout.take(groupsPerStep, signal);
    if (sampled.groups.length === 0) break;
    step++;
    await observer.onRollout?.(step, sampled);
    const { batch, metrics: built } = experience.build(sampled.groups, version);
    const report = await trainer.step(batch);
    experience.onTrained?.(report);
    const isDue = step % syncInterval === 0 || step === numSteps;
    const published = isDue ? await sync.publish(++version) : {};
    if (isDue) rollout.setVersion(version);
    const metrics = { ...sampled.metrics, ...built, ...report.metrics, ...published };
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}
