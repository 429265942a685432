/**
 * The loop of teacher/student adaptation: that of control, phase by phase.
 *
 * Who acts and who learns changes only between two iterations, so every tick is of the weights that are trained on it.
 */

import type { LoopPosition } from "../../loops/loop-parts.ts";
import type { ControlLoopParts } from "../control-loop.ts";
import type { AdaptationPhase } from "./policy/phases.ts";

/** A phase and how many iterations it lasts. */
export interface PhasePlan {
  readonly phase: AdaptationPhase;
  readonly iterations: number;
}

/** The parts of the control loop, and the way from one phase to the next. */
export interface AdaptationLoopParts extends ControlLoopParts {
  /** Lets the policy of this phase act and learn from the next tick on. Called before every iteration. */
  readonly enter: (phase: AdaptationPhase) => void;
}

/** Runs from the step after `start` to the end of the plan. Resolves with where it stopped. */
export async function runAdaptationLoop(
  { enter, collect, train, observer }: AdaptationLoopParts,
  start: LoopPosition,
  { plan, ticksPerStep }: { readonly plan: readonly PhasePlan[]; readonly ticksPerStep: number },
): Promise<LoopPosition> {
  let { step, version } = start;
  if ((await observer.onStart?.({ step, version })) === "stop") return { step, version };
  for (let phase = phaseAt(plan, step); phase !== null; phase = phaseAt(plan, step)) {
    enter(phase);
    const rollout = await collect(ticksPerStep, version);
    const metrics = await train(rollout);
    step++;
    version++;
    if ((await observer.onStep({ step, version }, metrics)) === "stop") break;
  }
  return { step, version };
}

/** The phase of the iteration after `step` of them; null after the last. */
export function phaseAt(plan: readonly PhasePlan[], step: number): AdaptationPhase | null {
  let end = 0;
  for (const { phase, iterations } of plan) {
    end += iterations;
    if (step < end) return phase;
  }
  return null;
}
