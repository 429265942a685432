import { expect, test } from "vitest";
import { runControlLoop } from "./control-loop.ts";
import type { ControlRollout } from "./control-rollout.ts";

/** Runs the loop to step 3 with parts that only tell what was asked of them. */
async function tell(start: number, { stopAfter = 99 } = {}) {
  const told: string[] = [];
  const end = await runControlLoop(
    {
      beforeStep: (step) => void told.push(`before ${step}`),
      collect: async (numTicks, version) => {
        told.push(`collect ${numTicks} with ${version}`);
        return {} as ControlRollout;
      },
      train: async () => {
        told.push("train");
        return { "train/updates": 4 };
      },
      observer: {
        onStep: async ({ step, version }, metrics) => {
          told.push(`step ${step}, version ${version}, ${metrics["train/updates"]} updates`);
          return step >= stopAfter ? "stop" : "continue";
        },
      },
    },
    { step: start, version: start },
    { numSteps: 3, ticksPerStep: 7 },
  );
  return { told, end };
}

test("every step prepares, rolls out with the newest weights, trains and reports", async () => {
  const { told, end } = await tell(1);
  expect(told).toEqual([
    ...["before 1", "collect 7 with 1", "train", "step 2, version 2, 4 updates"],
    ...["before 2", "collect 7 with 2", "train", "step 3, version 3, 4 updates"],
  ]);
  expect(end).toEqual({ step: 3, version: 3 });
});

test("the loop stops where the observer says so, and does nothing past its last step", async () => {
  expect((await tell(0, { stopAfter: 1 })).end).toEqual({ step: 1, version: 1 });
  expect(await tell(3)).toEqual({ told: [], end: { step: 3, version: 3 } });
});
