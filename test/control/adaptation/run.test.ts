import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type AdaptationRunFile, defineAdaptationRun } from "../../../src/control/adaptation/config.ts";
import { evaluateControlRun } from "../../../src/control/run/evaluate-control.ts";
import { planControl, resolveAdaptation } from "../../../src/control/run/prepare-control.ts";
import { trainControl } from "../../../src/control/run/train-control.ts";
import type { Metrics } from "../../../src/flow/metrics.ts";
import { describeMetric } from "../../../src/flow/metrics.ts";
import { silentTracker } from "../../../src/tracking/run-tracker.ts";
import { HiddenGainEnv } from "./hidden-gain-env.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-adaptation-run-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const file: AdaptationRunFile = {
  env: { type: "custom", numEnvs: 4, create: (numEnvs) => new HiddenGainEnv(numEnvs) },
  policy: { latentSize: 8, actorHidden: [16], criticHidden: [16] },
  algorithm: { type: "roa", policyEpochs: 1, adaptEpochs: 1, encoderPull: { rollouts: 2 } },
  loop: { ticks: 10, train: 80, adapt: 40, finetune: 80 },
  validation: { episodes: 4 },
};

async function runIn(name: string, { stopAfter = 99, isResumed = false } = {}) {
  const { config } = resolveAdaptation(defineAdaptationRun(file), ["seed=3"], {});
  const stopping = new AbortController();
  const logged = new Map<string, Metrics>();
  const tracker = {
    ...silentTracker,
    log: (step: number, kind: string, { "throughput/env_steps": _, ...metrics }: Metrics) => {
      logged.set(`${kind} ${step}`, metrics);
      if (kind === "train" && step >= stopAfter) stopping.abort();
    },
  };
  const folder = join(root, name);
  const open = { folder, tracker, signal: stopping.signal, isResumed };
  return { config, logged, result: await trainControl(config, open, () => 0) };
}

test("a run goes through its phases, stops and resumes to the bit, and leaves a student that can be evaluated", async () => {
  const whole = await runIn("whole");
  expect(whole.result.position).toEqual({ step: 5, version: 5 });
  const first = await runIn("cut", { stopAfter: 3 });
  const rest = await runIn("cut", { isResumed: true });
  expect(new Map([...first.logged, ...rest.logged])).toEqual(whole.logged);
  const bytes = ({ result }: typeof whole) => readFileSync(join(result.modelFolder, "policy.safetensors"));
  expect(bytes(rest).equals(bytes(whole))).toBe(true);
  const evaluated = await evaluateControlRun(whole.result.modelFolder, whole.config);
  expect(evaluated["reward/mean"]).toBe(whole.logged.get("validation 5")!["validation/reward/mean"]);
});

test("every metric of a run is described", async () => {
  const { logged } = await runIn("described");
  const names = new Set([...logged.values()].flatMap((metrics) => Object.keys(metrics)));
  expect(names).toContain("student/latent_error");
  expect([...names].filter((name) => describeMetric(name) === undefined)).toEqual([]);
});

test("the plan of a run counts rollouts and updates", () => {
  const { config } = resolveAdaptation(
    defineAdaptationRun({ env: { type: "push", numEnvs: 64 } }),
    ["loop.train=4100"],
    {},
  );
  expect(planControl(config)).toEqual([
    "32 ticks x 64 environments = 2048 steps per rollout; train 3 rollouts = 6144 steps, finetune 245 rollouts = 501760 steps",
    "20 updates of PPO on 512 steps and 8 of the regression on 16 sequences per rollout",
  ]);
});

test("an environment with discrete actions is refused", async () => {
  const { config } = resolveAdaptation(defineAdaptationRun({ env: { type: "cart-pole" } }), [], {});
  const open = {
    folder: join(root, "x"),
    tracker: silentTracker,
    signal: new AbortController().signal,
    isResumed: false,
  };
  await expect(trainControl(config, open, () => 0)).rejects.toThrow("Adaptation needs continuous actions");
});

test("more parts of the regression than environments are refused before anything starts", () => {
  const resolve = () => resolveAdaptation(defineAdaptationRun(file), ["algorithm.adaptMinibatches=5"], {});
  expect(resolve).toThrow("algorithm.adaptMinibatches is 5, and env.numEnvs is 4");
});
