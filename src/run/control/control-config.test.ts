import { expect, test } from "vitest";
import { explainRun } from "../explain-run.ts";
import { defineControlRun } from "./control-config.ts";
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
  expect(config.algorithm.schedule).toEqual({ type: "kl", target: 0.01 });
});

test("unknown keys and environments fail with the nearest known one", () => {
  expect(() => resolveControl({ ...file, polici: {} }, [], {})).toThrow(/polici.*policy/s);
  expect(() => resolveControl({ ...file, env: { type: "cart-poll" } }, [], {})).toThrow(/env\.type.*cart-pole/s);
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
