import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { Generator } from "../../torch/random.ts";
import { defineControlRun } from "../control-config.ts";
import { ControlPolicy, type ControlPolicyShape, saveControlPolicy } from "../policy/control-policy.ts";
import { evaluateControlRun } from "./evaluate-control.ts";
import { resolveControl } from "./prepare-control.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-evaluate-control-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const shape: ControlPolicyShape = {
  ...{ observationSize: 4, actions: { kind: "discrete", count: 2 } },
  ...{ hidden: [8], activation: "tanh", normalizeObservations: false },
};
saveControlPolicy(new ControlPolicy({ ...shape, generator: new Generator(1) }), shape, folder);

const evaluate = (type: "cart-pole" | "acrobot" | "inverted-pendulum") =>
  evaluateControlRun(folder, resolveControl(defineControlRun({ env: { type, numEnvs: 2 } }), [], {}).config);

test("a saved policy plays the episodes of the run file, ten where it names no number", async () => {
  const metrics = await evaluate("cart-pole");
  expect(metrics["episode/count"]).toBe(10);
  expect(metrics["reward/mean"]).toBe(metrics["episode/length"]);
});

test("a policy of another task is refused before it plays", async () => {
  await expect(evaluate("acrobot")).rejects.toThrow(
    'The policy does not fit env "acrobot": it was trained on observations of 4 numbers and one of 2 actions, and the ' +
      "environment has observations of 6 numbers and one of 3 actions.",
  );
  await expect(evaluate("inverted-pendulum")).rejects.toThrow(
    "the environment has observations of 4 numbers and actions of 1 numbers",
  );
});
