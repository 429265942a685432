import { expect, test } from "vitest";
import type { EnvStep, TextEnv } from "../text-env.ts";
import { EnvSessions } from "./env-sessions.ts";

const prompt = { id: "7", domain: "slow", seed: 7, messages: [], truth: null, extra: {} };

test("a call that is asked again while it runs is waited for, and steps the environment once", async () => {
  let numSteps = 0;
  let finish: (step: EnvStep) => void = () => {};
  const env: TextEnv = {
    start: () => ({ instructions: [], observation: { messages: [] } }),
    step: () => {
      numSteps++;
      return new Promise((resolve) => {
        finish = resolve;
      });
    },
  };
  const sessions = new EnvSessions({ makeEnv: () => env, idleMs: 60_000, clock: () => 0 });
  await sessions.open("a", prompt, 3);
  await sessions.call("a", 0, null);
  const asked = [1, 2, 3].map(() => sessions.call("a", 1, { text: "Left", isCut: false }));
  await expect.poll(() => numSteps).toBe(1);
  const step: EnvStep = { kind: "terminated", reward: 1, metrics: {} };
  finish(step);
  const answers = await Promise.all(asked);
  expect(answers.map(({ answer }) => answer)).toEqual([step, step, step]);
  expect(numSteps).toBe(1);
  await sessions.close();
});
