import { expect, test } from "vitest";
import { defineRun } from "./define-run.ts";
import { resolveRun } from "./resolve-run.ts";

const smallest = {
  model: { preset: "nano" },
  training: { optimizer: { lr: 1e-3 } },
} as const;

test("what is defined is what comes out, and it resolves", () => {
  const run = defineRun({
    ...smallest,
    envs: {
      lake: { type: "frozen-lake", size: 3 },
      mine: {
        type: "custom",
        makeEnv: () => ({
          start: () => ({ instructions: [], observation: { messages: [] } }),
          step: () => ({ kind: "terminated", reward: 1, metrics: {} }),
        }),
      },
    },
    rewards: {
      default: { type: "custom", name: "short", score: ({ reply }) => ({ value: reply.length < 9 ? 1 : 0 }) },
    },
    algorithm: { type: "gspo", clipHigh: 0.0004 },
    data: { type: "env", env: "lake" },
  });
  expect(run.algorithm).toEqual({ type: "gspo", clipHigh: 0.0004 });
  expect(resolveRun(run).config.envs.lake).toMatchObject({ size: 3 });
});

test("the types of a run file know the options of every part", () => {
  // @ts-expect-error a lake has no sise.
  defineRun({ ...smallest, envs: { lake: { type: "frozen-lake", sise: 3 } } });
  // @ts-expect-error there is no such recipe.
  defineRun({ ...smallest, algorithm: { type: "grp" } });
  // @ts-expect-error grpo has no lambda.
  defineRun({ ...smallest, algorithm: { type: "grpo", lambda: 1 } });
  // @ts-expect-error letters are a text.
  defineRun({ ...smallest, rewards: { default: { type: "choice", letters: 3 } } });
  // @ts-expect-error the learning rate has no default.
  defineRun({ model: { preset: "nano" }, training: {} });
  expect(defineRun(smallest)).toBe(smallest);
});

test("a run that says something of its loop need not say that it is the usual one", () => {
  const { loop } = resolveRun(
    defineRun({
      ...smallest,
      envs: { lake: { type: "frozen-lake" } },
      data: { type: "env", env: "lake" },
      loop: { steps: 7 },
    }),
  ).config;
  expect(loop).toEqual({ type: "sync", steps: 7, maxStaleness: null });
});
