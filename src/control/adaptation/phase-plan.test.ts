import { expect, test } from "vitest";
import { numIterations, type PhasePlan, phaseAt, planPhases } from "./phase-plan.ts";

const plan: readonly PhasePlan[] = [
  { phase: "train", iterations: 2 },
  { phase: "adapt", iterations: 0 },
  { phase: "finetune", iterations: 1 },
];

test("phases without iterations are passed over", () => {
  expect([0, 1, 2, 3].map((step) => phaseAt(plan, step))).toEqual(["train", "train", "finetune", null]);
});

test("a phase lasts the smallest number of rollouts that covers its steps", () => {
  const loop = { ticks: 10, train: 101, adapt: 0, finetune: 100 };
  const planned = planPhases({ loop, env: { type: "push", numEnvs: 5 } as never });
  expect(planned).toEqual([
    { phase: "train", iterations: 3 },
    { phase: "adapt", iterations: 0 },
    { phase: "finetune", iterations: 2 },
  ]);
  expect(numIterations(planned)).toBe(5);
});
