import pc from "picocolors";
import { describe, expect, test } from "vitest";
import {
  type ConsoleState,
  startState,
  timeLeftMs,
  withRecord,
  withWarning,
} from "../../src/tracking/console-state.ts";
import { renderLive, renderStep, renderSummary, renderValidation } from "../../src/tracking/render-console.ts";

const plain = pc.createColors(false);
const colored = pc.createColors(true);

/** 40 steps of 2 s out of 100, with everything that a run can show. */
function busyRun(): ConsoleState {
  let state = startState({ name: "countdown-grpo", folder: "runs/countdown-grpo", startStep: 0, numSteps: 100 }, 0);
  for (let step = 1; step <= 40; step++) {
    state = withRecord(state, {
      step,
      timeMs: 2000 * step,
      kind: "train",
      metrics: {
        "reward/mean": step / 50,
        "env/success": (step / 50) ** 2,
        "throughput/generate": 12_340,
        "throughput/train": 45_100,
        "throughput/step": 812,
        "train/staleness": 0.5,
        "train/loss": -0.0123,
        "train/grad_norm": 0.413,
        "train/sampler_gap": 0.0041,
        "policy/entropy": 0.52,
        "policy/clip_fraction": 0.118,
        "idle/engine": 0.123,
        "idle/environments": 0.9,
        "idle/trainer": 0.55,
        "time/step_ms": 2000,
      },
    });
  }
  state = withRecord(state, {
    step: 40,
    timeMs: 80_000,
    kind: "validation",
    metrics: { "validation/reward/mean": 0.71 },
  });
  state = withWarning(state, {
    step: 12,
    timeMs: 24_000,
    code: "equal-rewards",
    text: "95 % of groups have equal rewards, and so teach nothing: the task is too easy or too hard for this policy.",
    link: null,
  });
  return {
    ...state,
    activities: new Map([
      ["engine", { stage: "generating", count: 64, sinceMs: 79_000 }],
      ["loop", { stage: "rollout", count: 1, sinceMs: 80_000 }],
    ]),
  };
}

describe.each([60, 100])("at width %i", (width) => {
  test("the live view shows progress, curves, speed, workers and warnings", () => {
    const text = renderLive(busyRun(), 81_000, width, plain);
    expect(text).toMatchSnapshot();
    for (const line of text.split("\n")) expect(line.length).toBeLessThanOrEqual(width);
  });

  test("the live view of a run that has not begun is short", () => {
    const state = startState({ name: "new", folder: "runs/new", startStep: 0, numSteps: 10 }, 0);
    expect(renderLive(state, 3000, width, plain)).toMatchSnapshot();
  });

  test("the summary says how it ended, what came out, and what to do next", () => {
    const next = ["reroll dashboard runs", "reroll generate runs/countdown-grpo/checkpoints/step-40"];
    expect(renderSummary({ ...busyRun(), status: "finished" }, 90_000, next, width, plain)).toMatchSnapshot();
  });

  test("the summary of a failed run starts with the error", () => {
    const error = 'Env "sokoban" returned 3 rewards for 4 environments. VecEnv.step must return one value each.';
    const text = renderSummary({ ...busyRun(), status: "failed", error }, 90_000, [], width, plain);
    expect(text.split("\n")[1]).toMatch(/^error +Env "sokoban" returned 3 rewards/);
    expect(text.replace(/\s+/g, " ")).toContain("must return one value each.");
  });
});

test("colors change no letter", () => {
  const escapes = new RegExp(`${String.fromCharCode(27)}\\[\\d+m`, "g");
  const state = busyRun();
  const text = renderLive(state, 81_000, 80, colored);
  expect(text).toMatch(escapes);
  expect(text.replace(escapes, "")).toBe(renderLive(state, 81_000, 80, plain));
});

test("a step is one line with what is known of it", () => {
  expect(renderStep(busyRun())).toBe(
    "step 40/100  reward 0.8  success 64 %  loss -0.0123  tokens/s 812  step 2 s  left 2:00",
  );
  expect(renderStep(startState({ name: "n", folder: "f", startStep: 0, numSteps: 5 }, 0))).toBe("step 0/5");
});

test("steps of a warm start are counted among themselves, and the pace of training does not count them", () => {
  let state = startState({ name: "n", folder: "f", startStep: 0, numSteps: 8, numWarmSteps: 60 }, 0);
  const warm = { kind: "supervised", metrics: { "supervised/loss": 0.5 } } as const;
  state = withRecord(state, { ...warm, step: 20, timeMs: 10_000 });
  expect(renderStep(state)).toBe("warm start 20/60  loss 0.5  left 20 s");
  expect(renderLive(state, 10_000, 80, plain).split("\n")[0]).toBe("n  warm start 20/60  33 %");
  state = withRecord(state, { ...warm, step: 60, timeMs: 30_000 });
  state = withRecord(state, { step: 0, timeMs: 30_000, kind: "validation", metrics: {} });
  expect(renderLive(state, 30_000, 80, plain).split("\n")[0]).toBe("n  step 0/8  0 %");
  state = withRecord(state, { step: 1, timeMs: 32_000, kind: "train", metrics: { "reward/mean": 1 } });
  expect(renderStep(state)).toBe("step 1/8  reward 1  left 14 s");
});

test("a control run shows steps of its environments per second", () => {
  const started = startState({ name: "n", folder: "f", startStep: 0, numSteps: 2 }, 0);
  const metrics = { "reward/mean": 21.5, "throughput/env_steps": 48_200 };
  const state = withRecord(started, { step: 1, timeMs: 1000, kind: "train", metrics });
  expect(renderStep(state)).toBe("step 1/2  reward 21.5  env steps/s 48.2k  left 1 s");
  expect(renderLive(state, 1000, 80, plain)).toContain("\nsteps/s   environments 48.2k\n");
});

test("a validation is one line", () => {
  const metrics = { "validation/reward/mean": 0.7123, "validation/env/success": 0.5 };
  expect(renderValidation(20, metrics)).toBe("validation at step 20  reward 0.712  success 50 %");
});

test("the time left is that of this process's own steps", () => {
  const state = startState({ name: "n", folder: "f", startStep: 90, numSteps: 100 }, 1000);
  expect(timeLeftMs(state)).toBeUndefined();
  expect(timeLeftMs({ ...state, step: 92, steppedMs: 5000 })).toBe(16_000);
});

test("the best validation stays when a later one is worse or NaN", () => {
  const validation = (step: number, reward: number) =>
    ({ step, timeMs: 0, kind: "validation", metrics: { "validation/reward/mean": reward } }) as const;
  let state = startState({ name: "n", folder: "f", startStep: 0, numSteps: 9 }, 0);
  for (const [step, reward] of [
    [1, 0.2],
    [2, 0.6],
    [3, Number.NaN],
    [4, 0.5],
  ] as const)
    state = withRecord(state, validation(step, reward));
  expect(state.bestValidation).toEqual({ step: 2, reward: 0.6 });
});
