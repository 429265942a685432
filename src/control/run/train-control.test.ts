import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { describeMetric, type Metrics } from "../../flow/metrics.ts";
import { silentTracker } from "../../tracking/run-tracker.ts";
import { type ControlRunFile, defineControlRun } from "../control-config.ts";
import { createControlEnv } from "../envs/classic/classic-env.ts";
import type { VecEnv } from "../envs/vec-env.ts";
import { loadControlPolicy } from "../policy/control-policy.ts";
import { resolveControl } from "./prepare-control.ts";
import { trainControl } from "./train-control.ts";

const root = mkdtempSync(join(tmpdir(), "reroll-control-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const pendulum: ControlRunFile = {
  env: { type: "pendulum", numEnvs: 2, maxSteps: 30 },
  policy: { hidden: [16], normalizeObservations: true },
  algorithm: { type: "ppo", normalizeRewards: true, minibatches: 2, epochs: 2 },
  loop: { steps: 6 * 40, ticks: 20 },
  checkpoint: { every: 2, keep: 9 },
};

interface Told {
  readonly said: string[];
  readonly logged: Map<string, Metrics>;
}

/** Runs in a folder, up to `stopAfter` steps, and tells what was recorded. */
async function runIn(name: string, file: ControlRunFile, { stopAfter = 99, isResumed = false } = {}) {
  const { config } = resolveControl(defineControlRun(file), [], {});
  const stopping = new AbortController();
  const told: Told = { said: [], logged: new Map() };
  const tracker = {
    ...silentTracker,
    note: (text: string) => void told.said.push(text),
    log: (step: number, kind: string, metrics: Metrics) => {
      told.logged.set(`${kind} ${step}`, withoutSpeed(metrics));
      if (kind === "train" && step >= stopAfter) stopping.abort();
    },
  };
  const folder = join(root, name);
  const result = await trainControl(config, { folder, tracker, signal: stopping.signal, isResumed }, () => 0);
  return { ...told, result, folder };
}

/** A clock that stands still gives no speed worth comparing. */
function withoutSpeed({ "throughput/env_steps": _, ...metrics }: Metrics): Metrics {
  return metrics;
}

test("a run that was stopped and resumed equals one that never stopped, to the bit", async () => {
  const whole = await runIn("whole", pendulum);
  const first = await runIn("cut", pendulum, { stopAfter: 3 });
  expect(first.result.position).toEqual({ step: 3, version: 3 });
  const rest = await runIn("cut", pendulum, { isResumed: true });
  expect(rest.said).toEqual(["Going on from step 3."]);
  expect(new Map([...first.logged, ...rest.logged])).toEqual(whole.logged);
  for (const file of [
    "model/policy.safetensors",
    "state/policy/optimizer.safetensors",
    "state/critic/optimizer.safetensors",
  ]) {
    const bytesOf = (folder: string) => readFileSync(join(folder, "checkpoints/step-000006", file));
    expect(bytesOf(rest.folder).equals(bytesOf(whole.folder))).toBe(true);
  }
});

test("a checkpoint of another policy is refused on resume, with what differs", async () => {
  await runIn("narrow", pendulum, { stopAfter: 2 });
  const wide: ControlRunFile = { ...pendulum, policy: { hidden: [32], normalizeObservations: true } };
  await expect(runIn("narrow", wide, { isResumed: true })).rejects.toThrow(
    "step-000002 has hidden [16], and this run asks for [32]",
  );
  const other: ControlRunFile = { ...pendulum, env: { type: "mountain-car", numEnvs: 2 } };
  await expect(runIn("narrow", other, { isResumed: true })).rejects.toThrow(
    "observationSize 3, and this run asks for 2",
  );
});

test("a learning rate that follows the KL goes on after a resume where it was", async () => {
  const followsKl: ControlRunFile = {
    ...pendulum,
    algorithm: { type: "ppo", minibatches: 2, epochs: 2, lr: 1e-3, schedule: { type: "kl", targetKl: 0.01 } },
  };
  const whole = await runIn("kl-whole", followsKl);
  const lrs = [...whole.logged.values()].map((metrics) => metrics["train/lr"]);
  expect(new Set(lrs).size).toBeGreaterThan(1);
  const first = await runIn("kl-cut", followsKl, { stopAfter: 3 });
  const rest = await runIn("kl-cut", followsKl, { isResumed: true });
  expect(new Map([...first.logged, ...rest.logged])).toEqual(whole.logged);
});

test("environments that cannot be saved start again on resume, and the run says so", async () => {
  const create = (numEnvs: number): VecEnv => {
    const env = createControlEnv({ type: "cart-pole", numEnvs });
    const { observationSize, actions } = env;
    return { numEnvs, observationSize, actions, reset: (seed) => env.reset(seed), step: (chosen) => env.step(chosen) };
  };
  const file: ControlRunFile = { ...pendulum, env: { type: "custom", numEnvs: 2, create } };
  await runIn("restart", file, { stopAfter: 2 });
  const { said, result } = await runIn("restart", file, { isResumed: true });
  expect(said).toEqual(["Going on from step 2.", "These environments cannot be saved: their episodes start again."]);
  expect(result.position.step).toBe(6);
});

test("validation plays the most likely actions from the same starts, and keeps the best checkpoint", async () => {
  const validated: ControlRunFile = { ...pendulum, validation: { every: 3, episodes: 3 } };
  const { logged, result } = await runIn("validated", validated);
  const values = [0, 3, 6].map((step) => logged.get(`validation ${step}`)?.["validation/reward/mean"]);
  expect(values.every((value) => value !== undefined && value < 0)).toBe(true);
  expect(logged.get("validation 0")?.["validation/episode/count"]).toBe(3);
  expect(result.best?.value).toBe(Math.max(...values.map(Number)));
  const again = await runIn("validated-again", validated);
  expect(again.logged).toEqual(logged);
});

test("every metric of a run is described", async () => {
  const { logged } = await runIn("described", { ...pendulum, validation: { episodes: 1 } });
  const names = new Set([...logged.values()].flatMap((metrics) => Object.keys(metrics)));
  expect(names.size).toBeGreaterThan(15);
  expect([...names, "throughput/env_steps"].filter((name) => describeMetric(name) === undefined)).toEqual([]);
});

test("a saved policy loads with its shape and its statistics", async () => {
  const { result } = await runIn("saved", pendulum);
  const { policy, shape } = loadControlPolicy(result.modelFolder);
  expect(shape).toEqual({
    ...{ observationSize: 3, actions: { kind: "continuous", size: 1 } },
    ...{ hidden: [16], activation: "tanh", normalizeObservations: true },
  });
  expect(policy.normalizer?.count.item()).toBe(240);
});

test("environments of another number than was asked for are refused", async () => {
  const create = () => createControlEnv({ type: "cart-pole", numEnvs: 3 });
  await expect(runIn("other", { ...pendulum, env: { type: "custom", numEnvs: 2, create } })).rejects.toThrow(
    "env.create made 3 environments for env.numEnvs 2",
  );
});

/** CartPole with rewards in its first environment, for some ticks, whose sum overflows float32. */
function overpaid(firstTick: number, numTicks: number) {
  return (numEnvs: number): VecEnv => {
    const env = createControlEnv({ type: "cart-pole", numEnvs });
    const { observationSize, actions } = env;
    let tick = 0;
    return {
      ...{ numEnvs, observationSize, actions },
      reset: (seed) => env.reset(seed),
      step: (chosen) => {
        const step = env.step(chosen);
        const rewards_N = Float32Array.from(step.rewards_N);
        if (tick >= firstTick && tick < firstTick + numTicks) rewards_N[0] = 3e38;
        tick++;
        return { ...step, rewards_N };
      },
    };
  };
}

const plainRewards: ControlRunFile = { ...pendulum, algorithm: { type: "ppo", minibatches: 2, epochs: 2 } };

test("updates whose loss is not finite are skipped and counted, and the run goes on with the weights it had", async () => {
  const env = { type: "custom", numEnvs: 2, create: overpaid(25, 2) } as const;
  const { logged, result } = await runIn("outlier", { ...plainRewards, env });
  const of = (name: string) => [1, 2, 3, 4, 5, 6].map((step) => logged.get(`train ${step}`)?.[name]);
  expect(of("train/skipped_updates")).toEqual([0, 4, 0, 0, 0, 0]);
  expect(of("train/updates")).toEqual([4, 0, 4, 4, 4, 4]);
  expect(of("train/loss_policy").filter((loss) => loss !== undefined && Number.isFinite(loss))).toHaveLength(5);
  const { policy } = loadControlPolicy(result.modelFolder);
  expect(policy.parameters().every((parameter) => parameter.toArray().every(Number.isFinite))).toBe(true);
});

test("a run stops when ten updates in a row had to be skipped, and says what to look for", async () => {
  const env = { type: "custom", numEnvs: 2, create: overpaid(20, 999) } as const;
  await expect(runIn("hopeless", { ...plainRewards, env })).rejects.toThrow(
    /10 updates in a row had to be skipped: the last had a loss of NaN and a gradient norm of NaN and .*rewards or observations of extreme size/,
  );
});
