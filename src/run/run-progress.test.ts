import { expect, test } from "vitest";
import { nothingHeld } from "../models/formats/file-sink.ts";
import { silentTracker } from "../tracking/run-tracker.ts";
import type { LoopState } from "./checkpoint.ts";
import { goingOn, RunProgress } from "./run-progress.ts";

/** Plays steps that take a minute each, and returns those that were saved. */
async function savedSteps(checkpoint: { every: number; minutes: number | null }, numSteps: number): Promise<number[]> {
  const saved: number[] = [];
  let nowMs = 0;
  const progress = new RunProgress({
    config: { validation: null, checkpoint },
    trainer: { saveModel: async () => nothingHeld, saveState: async () => nothingHeld },
    tracker: silentTracker,
    checkpoints: {
      save: async (_: unknown, { step }: LoopState) => {
        saved.push(step);
        return "";
      },
      settled: async () => {},
      expectWritten: () => {},
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

/** The best validation of a run that found these values, and the step after which it stopped. */
async function bestOf(metric: string, values: readonly number[], limits: { patience?: number; stopAt?: number }) {
  let numValidated = 0;
  const progress = new RunProgress({
    config: {
      checkpoint: { every: 0, minutes: null },
      validation: { every: 1, metric, patience: limits.patience ?? null, stopAt: limits.stopAt ?? null },
    },
    trainer: { saveModel: async () => nothingHeld, saveState: async () => nothingHeld },
    tracker: silentTracker,
    checkpoints: { save: async () => "", settled: async () => {}, expectWritten: () => {} },
    validate: async () => ({ metrics: { [`validation/${metric}`]: values[numValidated++]! } }),
    position: () => ({ rollout: null, replay: null }),
    signal: new AbortController().signal,
    clock: () => 0,
    saved: null,
  });
  let [step, answer] = [0, await progress.onStart({ step: 0, version: 0 })];
  while (answer === "continue" && step + 1 < values.length) {
    step++;
    answer = await progress.onStep({ step, version: step }, {});
  }
  return { best: (await progress.finish({ step, version: step })).best, step };
}

test("the best validation is the highest reward, and the lowest loss", async () => {
  const values = [3, 1, 2, 5, 4];
  expect(await bestOf("reward/mean", values, {})).toEqual({ best: { step: 3, value: 5 }, step: 4 });
  expect(await bestOf("loss", values, {})).toEqual({ best: { step: 1, value: 1 }, step: 4 });
});

test("patience and stopAt follow the direction of the metric", async () => {
  expect(await bestOf("loss", [3, 2, 2.5, 4, 1], { patience: 2 })).toEqual({ best: { step: 1, value: 2 }, step: 3 });
  expect(await bestOf("loss", [3, 2, 1, 0.5], { stopAt: 2 })).toEqual({ best: { step: 1, value: 2 }, step: 1 });
  expect(await bestOf("reward/mean", [0, 1, 2], { stopAt: 1 })).toEqual({ best: { step: 1, value: 1 }, step: 1 });
});

test("a validation that is not a number, or without the metric, is never the best", async () => {
  const { NaN: none, POSITIVE_INFINITY: endless } = Number;
  expect(await bestOf("loss", [none, 3, none, 2, endless], {})).toEqual({ best: { step: 3, value: 2 }, step: 4 });
  expect(await bestOf("reward/mean", [endless, none], {})).toEqual({ best: null, step: 1 });
});

test("a run that resumes at its last step says how to train on", () => {
  expect(goingOn(3, 4)).toBe("Going on from step 3.");
  expect(goingOn(4, 4)).toMatch(
    /^Going on from step 4, the last one: loop.steps is 4, .* Set it higher to train on\.$/,
  );
});
