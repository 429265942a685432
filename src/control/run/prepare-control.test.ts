import { expect, test } from "vitest";
import { explainRun } from "../../run/explain-run.ts";
import { defineControlRun } from "../control-config.ts";
import { planControl, resolveControl } from "./prepare-control.ts";

const file = defineControlRun({ env: { type: "cart-pole", numEnvs: 8 }, loop: { steps: 10_000 } });

test("a run file names an environment, and everything else has a default", () => {
  const { config } = resolveControl(file, [], {});
  expect(config.env).toEqual({ type: "cart-pole", numEnvs: 8 });
  expect(config.policy.hidden).toEqual([64, 64]);
  expect(config.algorithm.schedule).toEqual({ type: "linear" });
});

test("--set replaces a value, also below a key that nobody wrote", () => {
  const { config } = resolveControl(
    file,
    ["algorithm.clip=0.1", "policy.hidden=[32]", "algorithm.schedule.type=kl"],
    {},
  );
  expect(config.algorithm.clip).toBe(0.1);
  expect(config.policy.hidden).toEqual([32]);
  expect(config.algorithm.schedule).toEqual({ type: "kl", targetKl: 0.01 });
});

test("unknown keys and environments fail with the nearest known one", () => {
  expect(() => resolveControl({ ...file, polici: {} }, [], {})).toThrow(/polici.*policy/s);
  expect(() => resolveControl({ ...file, env: { type: "cart-poll" } }, [], {})).toThrow(/env\.type.*cart-pole/s);
});

test("the old name of the KL target fails with the new one", () => {
  const sets = ["algorithm.schedule.type=kl", "algorithm.schedule.target=0.02"];
  expect(() => resolveControl(file, sets, {})).toThrow(/schedule.*target.*targetKl/s);
});

test("REROLL_HOME moves the runs, and REROLL_DEVICE is for language models", () => {
  const { config } = resolveControl(file, [], { REROLL_HOME: "/home/me", REROLL_DEVICE: "cuda" });
  expect(config.tracking.folder).toBe("/home/me/runs");
});

test("explain shows every key and its origin", () => {
  const lines = explainRun(resolveControl(file, ["seed=7"], {})).split("\n");
  expect(lines.find((line) => line.startsWith("seed"))).toMatch(/7\s+--set$/);
  expect(lines.find((line) => line.startsWith("env.numEnvs"))).toMatch(/8\s+file$/);
  expect(lines.find((line) => line.startsWith("algorithm.gamma"))).toMatch(/0.99\s+default$/);
});

test("the plan says how steps are cut into rollouts and updates", () => {
  expect(planControl(resolveControl(file, [], {}).config)).toEqual([
    "128 ticks x 8 environments = 1024 steps per rollout; 10 rollouts = 10240 steps",
    "4 epochs x 4 minibatches of 256 = 16 updates per rollout",
  ]);
});

test("a minibatch has rows enough, or the run does not begin", () => {
  const resolve = (...sets: string[]) => resolveControl(file, ["env.numEnvs=2", "loop.ticks=20", ...sets], {});
  expect(() => resolve("algorithm.minibatches=21")).toThrow(
    "algorithm.minibatches is 21, but a rollout has 40 rows: loop.ticks 20 times 2 environments. A minibatch needs at least " +
      "two rows to normalize advantages over: use at most 20 minibatches.",
  );
  expect(() => resolve("algorithm.minibatches=41", "algorithm.normalizeAdvantages=false")).toThrow("use at most 40");
  expect(resolve("algorithm.minibatches=20").config.algorithm.minibatches).toBe(20);
  expect(planControl(resolve("algorithm.minibatches=3").config)[1]).toBe(
    "4 epochs x 3 minibatches of 13 or 14 = 12 updates per rollout",
  );
});
