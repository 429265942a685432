import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { callsForeignCodeHere, hasForeignCode } from "./foreign-code.ts";
import { resolveRun } from "./resolve-run.ts";

const file = join(mkdtempSync(join(tmpdir(), "foreign-")), "run.ts");
writeFileSync(file, "");

const reward = { type: "custom", name: "mine", score: () => ({ value: 1 }) } as const;
const rows = { type: "rows", rows: [{ question: "2 + 2", answer: "4" }] } as const;
const configOf = (part: object) =>
  resolveRun({ model: { preset: "nano" }, data: rows, training: { optimizer: { lr: 1e-3 } }, ...part }).config;

test("a custom reward is called in a thread where that can load the run file, and else in the run's own", () => {
  const config = configOf({ rewards: { default: reward } });
  expect(hasForeignCode(config)).toBe(true);
  const here = [file, join(file, "..", "gone.ts"), "run.yaml", undefined].map((path) =>
    callsForeignCodeHere(config, path),
  );
  expect(here).toEqual([false, true, true, true]);
});

test("an environment that fetches its prompts is asked for them in the run's own thread", () => {
  const env = { type: "custom", makeEnv: () => ({}) } as const;
  const here = [env, { ...env, fetchPrompt: async () => ({}) }].map((game) =>
    callsForeignCodeHere(configOf({ envs: { game } }), file),
  );
  expect(here).toEqual([false, true]);
});

test("an agent is called in the run's own thread wherever the run comes from", () => {
  const config = configOf({ agent: async () => 1 });
  expect(callsForeignCodeHere(config, file)).toBe(true);
});

test("built-in rewards are nobody's code", () => {
  expect(callsForeignCodeHere(configOf({ rewards: { default: { type: "exact" } } }), undefined)).toBe(false);
});
