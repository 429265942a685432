/**
 * Rollout and training at the same time: groups are taken as they come, while the next ones are being sampled.
 *
 * Every `syncInterval` steps the weights are published in flight; running requests go on under the new version and their tokens say
 * so. How far rollout runs ahead is the scheduler's admission; what is too old by then, it drops.
 */
import type { LoopParts, LoopPosition } from "./loop-parts.ts";

export interface AsyncOptions {
  /** Training steps between two publications. */
  readonly syncInterval: number;
}

/** Runs from the step after `start` to `numSteps`. Resolves with where it stopped. */
export async function runAsyncLoop(
  { rollout, experience, trainer, sync, observer, groupsPerStep }: LoopParts,
  start: LoopPosition,
  numSteps: number,
  { syncInterval }: AsyncOptions,
  signal: AbortSignal,
): Promise<LoopPosition> {
  let { step, version } = start;
  await sync.publish(version);
  rollout.setVersion(version);
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  while (step < numSteps) {
    const sampled = await rollout.take(groupsPerStep, signal);
    if (sampled.groups.length === 0) break;
    step++;
    await observer.onRollout?.(step, sampled);
    const { batch, metrics: built } = experience.build(sampled.groups, version);
    const { metrics: trained } = await trainer.step(batch);
    const isDue = step % syncInterval === 0 || step === numSteps;
    const published = isDue ? await sync.publish(++version) : {};
    if (isDue) rollout.setVersion(version);
    const metrics = { ...sampled.metrics, ...built, ...trained, ...published };
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}
