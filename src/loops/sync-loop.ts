/** The plain order: roll out, train, publish, again. Every token is of the weights that are trained on it. */
import type { LoopParts, LoopPosition } from "./loop-parts.ts";

/** Runs from the step after `start` to `numSteps`. Resolves with where it stopped. */
export async function runSyncLoop(
  { rollout, experience, trainer, sync, observer, groupsPerStep }: LoopParts,
  start: LoopPosition,
  numSteps: number,
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
    const { metrics: trained } = await trainer.step(batch);
    const published = await sync.publish(++version);
    rollout.setVersion(version);
    const metrics = { ...sampled.metrics, ...built, ...trained, ...published };
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}
