/** PPO-ROA from its run file, with the defaults: phases, who learns in each, how often, the slow copy and the steered rate. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type AdaptationRunFile, defineAdaptationRun } from "../../src/control/adaptation/config.ts";
import { planControl, resolveAdaptation } from "../../src/control/run/prepare-control.ts";
import { trainControl } from "../../src/control/run/train-control.ts";
import type { Metrics } from "../../src/flow/metrics.ts";
import { resolveCheckpoint } from "../../src/models/formats/resolve-checkpoint.ts";
import { MappedCheckpoint } from "../../src/models/formats/tensor-files.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { HiddenGainEnv } from "../control/adaptation/hidden-gain-env.ts";
import { inFolder } from "../runs/lake-run.ts";

const file: AdaptationRunFile = {
  env: { type: "custom", numEnvs: 4, create: (numEnvs) => new HiddenGainEnv(numEnvs) },
  policy: { latentSize: 8, actorHidden: [16], criticHidden: [16] },
  loop: { ticks: 10, train: 80, adapt: 40, finetune: 80 },
  checkpoint: { every: 1, keep: 9 },
};

async function train(folder: string, ...sets: string[]): Promise<readonly Metrics[]> {
  const { config } = resolveAdaptation(defineAdaptationRun(file), sets, {});
  const logged: Metrics[] = [];
  const tracker = { ...silentTracker, log: (_: number, __: string, metrics: Metrics) => void logged.push(metrics) };
  await trainControl(config, { folder, tracker, signal: new AbortController().signal, isResumed: false }, () => 0);
  return logged;
}

/** What the checkpoint of a step holds: all weights by name, and how often each network was updated. */
function readStep(folder: string, step: number) {
  const state = join(folder, `checkpoints/step-00000${step}/state`);
  const resolved = resolveCheckpoint(join(state, "teacher/optimizer.safetensors"));
  const mapped = new MappedCheckpoint(resolved);
  const names = [...resolved.tensors.keys()].filter((name) => name.startsWith("parameter."));
  const weights = tensorScope(() => new Map(names.map((name) => [name.slice(10), mapped.read(name).toFloat32Array()])));
  mapped.dispose();
  const numUpdates = (network: string) => {
    const numbers = JSON.parse(readFileSync(join(state, network, "optimizer.json"), "utf8")) as Record<string, number>;
    return Math.max(...Object.entries(numbers).flatMap(([key, value]) => (key.startsWith("step.") ? [value] : [])));
  };
  const of = (module: string) =>
    [...weights].filter(([name]) => name.startsWith(`${module}.`)).map(([, values]) => values);
  return { of, updates: ["teacher", "critic", "adapt", "student"].map(numUpdates) };
}

test("PPO-ROA: three phases, 5 x 4 updates of PPO, 2 x 4 of the regression, a slow copy at 0.04", async () => {
  await inFolder(async (folder) => {
    const { config } = resolveAdaptation(defineAdaptationRun(file), [], {});
    expect(planControl(config)).toEqual([
      "10 ticks x 4 environments = 40 steps per rollout; train 2 rollouts = 80 steps, adapt 1 rollouts = 40 steps, finetune 2 rollouts = 80 steps",
      "20 updates of PPO on 10 steps and 8 of the regression on 1 sequences per rollout",
    ]);
    const logged = await train(folder);
    const steps = [1, 2, 3, 4, 5].map((step) => readStep(folder, step));
    // Of teacher, critic, adapt module and student. The student begins finetune with an optimizer of its own.
    expect(steps.map(({ updates }) => updates)).toEqual([
      [20, 20, 8, 8],
      [40, 40, 16, 16],
      [40, 40, 24, 24],
      [40, 60, 32, 20],
      [40, 80, 40, 40],
    ]);
    expect(logged.map((metrics) => "policy/kl" in metrics)).toEqual([true, true, false, true, true]);
    for (const module of ["encoderPriv", "actor"]) expect(steps[4]!.of(module)).toEqual(steps[1]!.of(module));
    // On entering finetune the slow copy is the adapt module; then it goes 4 % of the way to it after every rollout.
    const [third, fourth, fifth] = steps.slice(2);
    expectMoved(third!.of("adaptModule"), fourth!.of("adaptModule"), fourth!.of("adaptEma"));
    expectMoved(fourth!.of("adaptEma"), fifth!.of("adaptModule"), fifth!.of("adaptEma"));
  });
});

function expectMoved(from: Float32Array[], towards: Float32Array[], to: Float32Array[]): void {
  expect(from.length).toBeGreaterThan(0);
  let farthest = 0;
  for (const [i, values] of from.entries()) {
    for (const [j, value] of values.entries()) {
      const distance = towards[i]![j]! - value;
      expect(to[i]![j]).toBeCloseTo(value + 0.04 * distance, 6);
      farthest = Math.max(farthest, Math.abs(distance));
    }
  }
  expect(farthest).toBeGreaterThan(1e-4);
}

test.each([
  { targetKl: "1e9", lr: 1e-2 },
  { targetKl: "1e-12", lr: 1e-5 },
  { targetKl: "null", lr: 3e-4 },
])("PPO-ROA: a KL target of $targetKl steers the rate to $lr", async ({ targetKl, lr }) => {
  await inFolder(async (folder) => {
    const [metrics] = await train(
      folder,
      `algorithm.targetKl=${targetKl}`,
      "loop.train=40",
      "loop.adapt=0",
      "loop.finetune=0",
    );
    // 19 changes by a factor of 1.5, up to the bounds.
    expect(metrics!["train/lr"]).toBeCloseTo(lr, 9);
  });
});
