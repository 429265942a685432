/**
 * The loop of control: roll out, train, again.
 *
 * The actor shares its weights with the trainer and they take turns, so every tick is of the weights that are trained on it,
 * and a new version is published by being there.
 */

import type { Metrics } from "../flow/metrics.ts";
import type { LoopObserver, LoopPosition } from "../loops/loop-parts.ts";
import type { ControlRollout } from "./control-rollout.ts";

/** What the loop is given: built parts, never config. */
export interface ControlLoopParts {
  /** Ticks of a frozen policy. */
  readonly collect: (numTicks: number, version: number) => Promise<ControlRollout>;
  /** Learns from them; the weights have changed when it resolves. */
  readonly train: (rollout: ControlRollout) => Promise<Metrics>;
  readonly observer: LoopObserver;
}

/** How far, and in steps of how many ticks. */
export interface ControlLoopOptions {
  readonly numSteps: number;
  readonly ticksPerStep: number;
}

/** Runs from the step after `start` to `numSteps`. Resolves with where it stopped. */
export async function runControlLoop(
  { collect, train, observer }: ControlLoopParts,
  start: LoopPosition,
  { numSteps, ticksPerStep }: ControlLoopOptions,
): Promise<LoopPosition> {
  let { step, version } = start;
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  while (step < numSteps) {
    const rollout = await collect(ticksPerStep, version);
    const metrics = await train(rollout);
    step++;
    version++;
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}
