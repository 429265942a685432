/** The order of the phases in a run, and how many steps each of them lasts. */
import type { AdaptationConfig } from "./config.ts";
import { type AdaptationPhase, phaseOrder } from "./policy/phases.ts";

/** A phase and the number of rollouts it lasts, with a training step each. */
export interface PhasePlan {
  readonly phase: AdaptationPhase;
  readonly iterations: number;
}

/** The phases of a run: each lasts the smallest number of rollouts that covers its steps. */
export function planPhases({ loop, env }: Pick<AdaptationConfig, "loop" | "env">): readonly PhasePlan[] {
  const stepsPerRollout = loop.ticks * env.numEnvs;
  return phaseOrder.map((phase) => ({ phase, iterations: Math.ceil(loop[phase] / stepsPerRollout) }));
}

/** Rollouts of a whole plan. */
export function numIterations(plan: readonly PhasePlan[]): number {
  return plan.reduce((sum, { iterations }) => sum + iterations, 0);
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
