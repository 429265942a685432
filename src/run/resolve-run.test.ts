import { expect, test } from "vitest";
import { exampleRun } from "../../test/cli/example-run.ts";
import { parseOverride } from "./apply-overrides.ts";
import { explainRun } from "./explain-run.ts";
import { resolveRun } from "./resolve-run.ts";

const sets = (...texts: string[]) => texts.map(parseOverride);

test("defaults of the schema and of the parts are filled in", () => {
  const { config } = resolveRun(exampleRun);
  expect(config.rollout).toMatchObject({ groupSize: 4, maxInFlight: 256, sampling: { maxTokens: 16, temperature: 1 } });
  expect(config.algorithm).toMatchObject({ type: "grpo", clipHigh: 0.2, numEpochs: 1 });
  expect(config.envs.lake).toMatchObject({ type: "frozen-lake", size: 3, holeRate: 0.2 });
});

test("a settled run settles to itself", () => {
  const { config } = resolveRun({ ...exampleRun, rewards: { default: { type: "math" } } });
  expect(resolveRun(config).config).toEqual(config);
});

test("variables fill in what the file leaves out, and --set wins over both", () => {
  const environment = { REROLL_DEVICE: "cpu", REROLL_HOME: "/data/reroll", OTHER: "x" };
  const device = (file: object, ...texts: string[]) =>
    resolveRun({ ...exampleRun, ...file }, sets(...texts), environment).config;
  expect(device({}).device).toBe("cpu");
  expect(device({}).tracking.folder).toBe("/data/reroll/runs");
  expect(device({ device: "cuda" }).device).toBe("cuda");
  expect(device({ device: "cuda" }, "device=auto").device).toBe("auto");
  expect(device({ tracking: { tags: ["a"] } }).tracking).toMatchObject({ folder: "/data/reroll/runs", tags: ["a"] });
});

test("functions of custom parts survive, and a wrong one is refused", () => {
  const score = () => ({ value: 1 });
  const { config } = resolveRun({ ...exampleRun, rewards: { default: { type: "custom", name: "one", score } } });
  expect(config.rewards.default).toMatchObject({ type: "custom", name: "one", cost: "instant", score });
  expect(() => resolveRun({ ...exampleRun, rewards: { default: { type: "custom", name: "one" } } })).toThrow(
    "rewards.default is of type custom and needs a name and a function score: got name",
  );
  expect(() => resolveRun({ ...exampleRun, envs: { mine: { type: "custom", makePrompt: score } } })).toThrow(
    "envs.mine is of type custom and has no function makeEnv",
  );
});

test("explain shows every key with its value and where it comes from", () => {
  const resolved = resolveRun(exampleRun, sets("rollout.groupSize=16", 'loop={"type":"sync","steps":7}'), {
    REROLL_DEVICE: "cpu",
  });
  const rows = explainRun(resolved)
    .split("\n")
    .map((line) => line.split(/ {2,}/));
  const row = (key: string) => rows.find(([name]) => name === key)?.slice(1);
  expect(row("seed")).toEqual(["1", "default"]);
  expect(row("device")).toEqual(['"cpu"', "REROLL_DEVICE"]);
  expect(row("rollout.groupSize")).toEqual(["16", "--set"]);
  expect(row("rollout.groupsPerStep")).toEqual(["4", "file"]);
  expect(row("loop.steps")).toEqual(["7", "--set"]);
  expect(row("envs.lake.size")).toEqual(["3", "file"]);
  expect(row("envs.lake.holeRate")).toEqual(["0.2", "default"]);
  expect(row("algorithm.clipHigh")).toEqual(["0.2", "default"]);
  expect(row("training.optimizer.betas")).toEqual(["[0.9,0.999]", "default"]);
});

test("explain puts origins in one column", () => {
  const lines = explainRun(resolveRun(exampleRun)).split("\n");
  const columns = new Set(lines.filter((line) => line.length < 150).map((line) => line.search(/(default|file)$/)));
  expect(columns.size).toBe(1);
});
