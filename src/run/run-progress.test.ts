import { expect, test } from "vitest";
import { silentTracker } from "../tracking/run-tracker.ts";
import type { LoopState } from "./checkpoint.ts";
import { RunProgress } from "./run-progress.ts";

/** Plays steps that take a minute each, and returns those that were saved. */
async function savedSteps(checkpoint: { every: number; minutes: number | null }, numSteps: number): Promise<number[]> {
  const saved: number[] = [];
  let nowMs = 0;
  const progress = new RunProgress({
    config: { validation: null, checkpoint },
    trainer: { saveModel: async () => {}, saveState: async () => {} },
    tracker: silentTracker,
    checkpoints: {
      save: async (_: unknown, { step }: LoopState) => {
        saved.push(step);
        return "";
      },
    },
    validate: null,
    position: () => ({ rollout: null, replay: null }),
    signal: new AbortController().signal,
    clock: () => nowMs,
    saved: null,
  });
  await progress.onStart({ step: 0, version: 0 });
  for (let step = 1; step <= numSteps; step++) {
    nowMs += 60_000;
    await progress.onStep({ step, version: step }, {});
  }
  await progress.finish({ step: numSteps, version: numSteps });
  return saved;
}

test("a checkpoint is due when its minutes have passed since the last one", async () => {
  expect(await savedSteps({ every: 0, minutes: 10 }, 25)).toEqual([0, 10, 20, 25]);
});

test("a checkpoint by steps starts the minutes anew", async () => {
  expect(await savedSteps({ every: 7, minutes: 4 }, 14)).toEqual([0, 4, 7, 11, 14]);
});

test("without steps and minutes there is one checkpoint, at the end", async () => {
  expect(await savedSteps({ every: 0, minutes: null }, 5)).toEqual([5]);
});
