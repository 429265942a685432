/**
 * Learning rates over time.
 *
 * A schedule is a pure function from the number of updates done so far (0 before the first) to a factor on each group's
 * base learning rate, so a resumed run needs the step and nothing else.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Optimizer } from "./optimizer.ts";

/** The factor at a step, which may lie between two whole ones. */
export type Schedule = (step: number) => number;

/** Sets the learning rate of every group to its base times the factor. */
export function applySchedule(optimizer: Optimizer, factor: number): void {
  for (const group of optimizer.groups) group.lr = group.baseLr * factor;
}

/** Always 1. */
export function constantRate(): Schedule {
  return () => 1;
}

/**
 * Rises in equal steps and stays at 1: (step + 1) / steps. The first update has a part of the rate, not none of it, which
 * would be a wasted batch.
 */
export function linearWarmup(steps: number): Schedule {
  return withWarmup(steps, constantRate());
}

/** Falls on a line from 1 at step 0 to `finalFactor` at `steps`, and stays there. */
export function linearDecay(steps: number, finalFactor = 0): Schedule {
  expectSteps("linearDecay", steps, 1);
  return (step) => finalFactor + (1 - finalFactor) * (1 - progress(step, steps));
}

/** Falls along half a cosine from 1 at step 0 to `finalFactor` at `steps`, and stays there. */
export function cosineDecay(steps: number, finalFactor = 0): Schedule {
  expectSteps("cosineDecay", steps, 1);
  return (step) => finalFactor + ((1 - finalFactor) * (1 + Math.cos(Math.PI * progress(step, steps)))) / 2;
}

/** Linear warm-up for `steps` updates, then `after`, which counts from its own 0. */
export function withWarmup(steps: number, after: Schedule): Schedule {
  expectSteps("warm-up", steps, 0);
  return (step) => (step < steps ? (after(0) * Math.min(step + 1, steps)) / steps : after(step - steps));
}

function progress(step: number, steps: number): number {
  return Math.min(step / steps, 1);
}

function expectSteps(name: string, steps: number, least: number): void {
  if (Number.isInteger(steps) && steps >= least) return;
  throw new RerollError("INVALID_ARGUMENT", `${name} needs a whole number of steps, at least ${least}: got ${steps}.`);
}
