import { expect, test } from "vitest";
import type { ControlRollout } from "../control-rollout.ts";
import { type PhasePlan, phaseAt, runAdaptationLoop } from "./phase-plan.ts";

const plan: readonly PhasePlan[] = [
  { phase: "train", iterations: 2 },
  { phase: "adapt", iterations: 0 },
  { phase: "finetune", iterations: 1 },
];

/** Runs the loop with parts that only tell what was asked of them. */
async function tell(start: number, stopAfter = 99): Promise<{ readonly told: string[]; readonly end: unknown }> {
  const told: string[] = [];
  const end = await runAdaptationLoop(
    {
      enter: (phase) => void told.push(phase),
      collect: async (numTicks, version) => {
        told.push(`collect ${numTicks} ${version}`);
        return {} as ControlRollout;
      },
      train: async () => {
        told.push("learn");
        return {};
      },
      observer: { onStep: async ({ step }) => (step >= stopAfter ? "stop" : "continue") },
    },
    { step: start, version: start },
    { plan, ticksPerStep: 7 },
  );
  return { told, end };
}

test("every iteration enters its phase, rolls out and trains", async () => {
  const { told, end } = await tell(0);
  const rounds = ["train", "train", "finetune"].map((phase, i) => [phase, `collect 7 ${i}`, "learn"]);
  expect(told).toEqual(rounds.flat());
  expect(end).toEqual({ step: 3, version: 3 });
});

test("a loop goes on in the phase it was stopped in", async () => {
  expect((await tell(0, 1)).end).toEqual({ step: 1, version: 1 });
  expect((await tell(1)).told[0]).toBe("train");
  expect((await tell(3)).told).toEqual([]);
});

test("phases without iterations are passed over", () => {
  expect([0, 1, 2, 3].map((step) => phaseAt(plan, step))).toEqual(["train", "train", "finetune", null]);
});
