/** What a caller wrote and can never work ends with code 2 and one sentence; what fails on the way with 1. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callReroll } from "./call-reroll.ts";
import { exampleRun } from "./example-run.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-misuse-"));
const runFile = join(folder, "run.json");

beforeAll(() => writeFileSync(runFile, JSON.stringify(exampleRun)));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  [["eval", "runs/none", "--run-file", runFile], "runs/none does not exist"],
  [["train", runFile, "--resume", "runs/none"], "runs/none"],
  [["train", runFile, "--resume-from", "runs/none/checkpoints/step-000001"], "runs/none"],
  [["train", "none.ts"], "none.ts"],
  [["export", "runs/none", "--out", "out"], "runs/none does not exist"],
  [["generate", "runs/none", "--prompt", "a"], "runs/none does not exist"],
  [["serve", "runs/none"], "runs/none does not exist"],
  [["dashboard", "runs/none"], "runs/none is no folder"],
  [["runs", "list", "runs/none"], "runs/none is no folder"],
  [["runs", "compare", "none"], "none holds no run"],
  [["trian", runFile], "unknown command 'trian'"],
  [["train", runFile, "--stepz", "3"], "unknown option '--stepz'"],
  [["train"], "missing required argument"],
])("%j is misuse", async (words, says) => {
  const { code, stderr } = await callReroll(...words);
  expect(stderr).toContain(says);
  expect(code).toBe(2);
});

test.each([
  [{ data: { type: "rows", rows: [{ nothing: 1 }] }, rewards: { default: { type: "exact" } } }, "any known schema"],
  [{ model: { preset: "nano", lora: { targets: ["nothing"] } } }, 'targets has "nothing"'],
  [{ warmStart: { type: "data", steps: 2, data: { type: "rows", rows: [{ nothing: 1 }] } } }, "any known schema"],
])("%j is refused while the run is opened, leaves no folder and proposes none", async (change, says) => {
  const root = join(folder, "runs");
  writeFileSync(runFile, JSON.stringify({ ...exampleRun, device: "cpu", tracking: { folder: root }, ...change }));
  const { code, stdout, stderr } = await callReroll("train", runFile);
  expect(stderr).toContain(says);
  expect(code).toBe(2);
  expect(readdirSync(root)).toEqual([]);
  expect(stdout).toContain("run failed");
  expect(stdout).not.toContain(root);
});

test("help and version are no misuse", async () => {
  expect((await callReroll("--help")).code).toBe(0);
  expect((await callReroll("train", "--help")).code).toBe(0);
  expect((await callReroll("--version")).code).toBe(0);
});
