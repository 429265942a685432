/**
 * The loop of control: roll out, train, repeat.
 *
 * The actor shares the trainer's weights and the two take turns, so every tick is sampled from the weights that are trained on
 * it, and nothing has to be published.
 */

import type { Metrics } from "../flow/metrics.ts";
import type { LoopObserver, LoopPosition } from "../loops/loop-parts.ts";
import type { ControlRollout } from "./control-rollout.ts";

/** The parts of the loop: built objects, never config. */
export interface ControlLoopParts {
  /** Prepares actor and trainer for the step after `step` of them: adaptation changes phases here. */
  readonly beforeStep?: (step: number) => void;
  /** Lets the frozen policy act for some ticks. */
  readonly collect: (numTicks: number, version: number) => Promise<ControlRollout>;
  /** Learns from a rollout; the weights have changed when it resolves. */
  readonly train: (rollout: ControlRollout) => Promise<Metrics>;
  readonly observer: LoopObserver;
}

export interface ControlLoopOptions {
  /** The step at which the run is over. */
  readonly numSteps: number;
  readonly ticksPerStep: number;
}

/** Runs from the step after `start` to `numSteps`. Resolves with where it stopped. */
export async function runControlLoop(
  { beforeStep, collect, train, observer }: ControlLoopParts,
  start: LoopPosition,
  { numSteps, ticksPerStep }: ControlLoopOptions,
): Promise<LoopPosition> {
  let { step, version } = start;
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  while (step < numSteps) {
    beforeStep?.(step);
    const rollout = await collect(ticksPerStep, version);
    const metrics = await train(rollout);
    step++;
    version++;
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}
