import { expect, test } from "vitest";
import { envSource } from "../data/env-source.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { patientPrompts } from "./patient-prompts.ts";

const lost = new RerollError("SERVICE_LOST", "http://n1 did not answer in 6 attempts.");
const promptOf = (seed: number) => ({
  ...{ id: `game/${seed}`, domain: "game", seed, messages: [], truth: null, extra: {} },
});

test("a prompt whose server is lost is asked for again until the server is back, and the loss is told once", async () => {
  const said: string[] = [];
  let numAsked = 0;
  const fetchPrompt = async (seed: number) => {
    if (++numAsked < 4) throw lost;
    return promptOf(seed);
  };
  const { makePrompt } = patientPrompts("game", fetchPrompt, {
    clock: () => 0,
    report: (text) => void said.push(text),
  });
  expect(await makePrompt!(7)).toEqual(promptOf(7));
  expect(said).toEqual(["envs.game makes no prompts: http://n1 did not answer in 6 attempts. It is asked again."]);
});

test("where no server comes back within five minutes the run fails with that, and no prompt is left out", async () => {
  let nowMs = 0;
  const fetchPrompt = () => {
    nowMs += 100_000;
    return Promise.reject(lost);
  };
  const { makePrompt } = patientPrompts("game", fetchPrompt, { clock: () => nowMs });
  const source = envSource({ name: "game", part: "train", seed: 1, makePrompt: makePrompt! });
  await expect(source.next(1)).rejects.toBe(lost);
  expect(nowMs).toBe(300_000);
});

test("a prompt that a server cannot make has failed at once", async () => {
  const failed = new RerollError("INVALID_REQUEST", "no such game");
  const { makePrompt } = patientPrompts("game", () => Promise.reject(failed), { clock: () => 0 });
  await expect(makePrompt!(7)).rejects.toBe(failed);
});
