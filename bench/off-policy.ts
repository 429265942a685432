/**
 * What stale and inexact samplers do to training, and which corrections hold.
 *
 * node --import tsx bench/off-policy.ts [--seeds 1,2,3] [variant ...]
 * The engine gets new weights every 4th step only, samples up to one publication ahead, and its weights differ from the
 * trainer's by Gaussian noise, drawn anew at each publication: what a quantised engine does, made large enough for a small task.
 * Rewards are those of the trainer's own weights, on prompts that are never trained on.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import { envSource } from "../src/data/env-source.ts";
import { buildSamples } from "../src/experience/sample-builder.ts";
import type { Metrics } from "../src/flow/metrics.ts";
import { copyWeights } from "../src/generation/local/copy-weights.ts";
import { LocalEngine } from "../src/generation/local/local-engine.ts";
import { runAsyncLoop } from "../src/loops/async-loop.ts";
import { loadCausalLm } from "../src/models/causal-lm/load-causal-lm.ts";
import { loadTokenizer } from "../src/models/tokenizer/load-tokenizer.ts";
import { deriveSeed } from "../src/random/random.ts";
import { admitByStaleness } from "../src/rollout/admission.ts";
import { ChatFormat } from "../src/rollout/conversation.ts";
import { createEpisodeRunner, defaultEpisodeLimits } from "../src/rollout/episode.ts";
import { RolloutScheduler, type SchedulerOptions } from "../src/rollout/rollout-scheduler.ts";
import { prepareModel } from "../src/run/prepare-model.ts";
import { runConfig } from "../src/run/run-config.ts";
import { randn } from "../src/torch/create.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import { Generator } from "../src/torch/random.ts";
import { tensorScope } from "../src/torch/scope.ts";
import type { Tensor } from "../src/torch/tensor.ts";
import { TrainerHost } from "../src/training/trainer-host.ts";
import { trainingOptions } from "../src/training/trainer-options.ts";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { printTable, writeResult } from "./report.ts";
import { reverseDigits } from "./reverse-digits.ts";

const task = { numDigits: Number(process.env.ND ?? 2), base: Number(process.env.BASE ?? 5) };
const settings = {
  steps: Number(process.env.STEPS ?? 96),
  groupsPerStep: 16,
  groupSize: 8,
  /** Updates of 32 trajectories: four per step. */
  minibatch: 32,
  lr: Number(process.env.LR ?? 2e-3),
  syncInterval: 4,
  maxStaleness: 1,
  /** The deviation of the noise, as a share of each weight matrix's own. */
  noise: Number(process.env.NOISE ?? 0.1),
  evaluationPrompts: 128,
};

const grpo = { type: "grpo", reduction: { type: "token-mean" }, dualClip: null } as const;
const token = { level: "token", threshold: 2 } as const;
const variants = {
  "on-policy": grpo,
  "naive PPO": { ...grpo, bypass: {} },
  "anchor, uncorrected": grpo,
  "decoupled PPO": { type: "decoupled-ppo", weightCap: 5 },
  "token weights": { ...grpo, correction: { importance: token } },
  "sequence weights": { ...grpo, correction: { importance: { level: "sequence", threshold: 4 } } },
  "sequence rejection": {
    ...grpo,
    correction: { importance: token, rejections: { token_k1: "0.25_4" }, scope: "sequence" },
  },
} as const satisfies Record<string, RecipeChoice>;

type Variant = keyof typeof variants;

interface OffPolicyRun extends Curve {
  readonly seed: number;
  /** Means over all steps. */
  readonly samplerGap: number;
  readonly keptShare: number;
  readonly seconds: number;
}

const { values, positionals } = parseArgs({
  options: { seeds: { type: "string", default: "1,2,3" } },
  allowPositionals: true,
});
setNumThreads(2);
const chosen = (positionals.length > 0 ? positionals : Object.keys(variants)) as Variant[];
const runs: OffPolicyRun[] = [];
for (const seed of values.seeds.split(",").map(Number)) {
  for (const variant of chosen) {
    const run = await learn(variant, seed);
    runs.push(run);
    console.log(`${variant}, seed ${seed}: ${run.points.map(({ y }) => y.toFixed(2)).join(" ")}  ${run.seconds.toFixed(0)} s  gap ${run.samplerGap.toFixed(3)} kept ${run.keptShare.toFixed(2)}`);
  }
}

async function learn(variant: Variant, seed: number): Promise<OffPolicyRun> {
  const startedMs = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "reroll-off-policy-"));
  const env = reverseDigits(task);
  const model = { path: null, preset: "nano", dtype: "float32", lora: null } as const;
  const modelFolder = prepareModel({ model, seed }, [env], folder);
  const format = new ChatFormat(await loadTokenizer(modelFolder));
  const { steps, groupsPerStep, groupSize, minibatch, lr } = settings;
  const isOnPolicy = variant === "on-policy";
  const syncInterval = isOnPolicy ? 1 : settings.syncInterval;
  const host = await TrainerHost.create({
    source: {
      ...{ modelFolder, tokenizerFolder: modelFolder, device: "cpu", dtype: "float32" },
      ...{ lora: null, reference: null, critic: null, algorithm: variants[variant] },
      training: trainingOptions.parse({ optimizer: { lr }, minibatch }),
      length: { numUpdates: 0, updatesPerRolloutStep: 1 },
      ...{ temperature: 1, seed },
    },
    supervised: null,
  });
  const [sampler, judge] = [loadCausalLm(modelFolder), loadCausalLm(modelFolder)];
  const place = { contextLength: 16, maxRunning: 256, isSteady: true };
  const [engine, judging] = [new LocalEngine(sampler, place), new LocalEngine(judge, place)];
  const schedulerOf = (from: LocalEngine, part: "train" | "validation", options: SchedulerOptions) =>
    new RolloutScheduler({
      runEpisode: createEpisodeRunner({
        generate: from.generate,
        makeEnv: env.makeEnv,
        format,
        sampling: { maxTokens: task.numDigits, temperature: 1 },
        limits: { ...defaultEpisodeLimits, contextLength: 16 },
        clock: () => performance.now(),
      }),
      sources: [{ share: 1, source: envSource({ name: "reverse", makePrompt: env.makePrompt!, part, seed }) }],
      options,
      seed,
      clock: () => performance.now(),
    });
  const scheduler = schedulerOf(engine, "train", {
    groupSize,
    maxInFlight: 256,
    ...(isOnPolicy
      ? {}
      : {
          admission: admitByStaleness(settings.maxStaleness, groupsPerStep * syncInterval),
          rest: "continue",
          maxStaleness: settings.maxStaleness,
        }),
  });
  const { signal } = new AbortController();
  const evaluate = async (): Promise<number> => {
    judging.updateWeights(0, (target) => copyWeights(target, host.weights()));
    const rollout = schedulerOf(judging, "validation", { groupSize: 1, maxInFlight: 256 });
    const { metrics } = await rollout.take(settings.evaluationPrompts, signal);
    await rollout.close();
    return metrics["reward/mean"]!;
  };
  const points: { x: number; y: number }[] = [];
  const all: Metrics[] = [];
  await runAsyncLoop(
    {
      rollout: scheduler,
      experience: {
        build: (groups, version) => {
          const { samples, metrics } = buildSamples(groups);
          return { batch: { samples, version }, metrics };
        },
      },
      trainer: {
        step: (batch) => host.step(batch),
        stepSupervised: async (samples) => host.stepSupervised(samples),
        withWeights: (use) => use(host.weights()),
        saveModel: async (to) => host.saveModel(to),
        saveState: async (to) => host.saveState(to),
        loadState: async (from) => host.loadState(from),
        close: async () => host.dispose(),
      },
      sync: {
        publish: async (version) => {
          tensorScope(() => {
            const weights = isOnPolicy ? host.weights() : noisy(host.weights(), deriveSeed(seed, "noise", version));
            engine.updateWeights(version, (target) => copyWeights(target, weights));
          });
          return {};
        },
      },
      observer: {
        onStep: async ({ step }, metrics) => {
          all.push(metrics);
          if (step % 8 === 0) points.push({ x: step, y: await evaluate() });
          return "continue";
        },
      },
      groupsPerStep,
    },
    { step: 0, version: 0 },
    steps,
    { syncInterval },
    signal,
  );
  await scheduler.close();
  await Promise.all([engine.close(), judging.close()]);
  host.dispose();
  for (const one of [sampler, judge]) one.dispose();
  rmSync(folder, { recursive: true });
  const mean = (name: string) => all.reduce((sum, metrics) => sum + (metrics[name] ?? 0) / all.length, 0);
  if (process.env.DEBUG) console.log(Object.keys(all[0]!).join(" "));
  return {
    name: variant,
    seed,
    points,
    samplerGap: mean("train/sampler_gap"),
    keptShare: mean("score/kept_fraction"),
    seconds: (performance.now() - startedMs) / 1000,
  };
}

/** Weights as an engine might have them: each matrix with noise in proportion to its own spread. */
function noisy(weights: ReadonlyMap<string, Tensor>, seed: number): ReadonlyMap<string, Tensor> {
  const generator = new Generator(seed);
  const changed = [...weights].map(([name, weight]) => {
    const isMatrix = weight.shape.length > 1;
    const change = randn(weight.shape, { generator }).mul(weight.detach().std().item() * settings.noise);
    return [name, isMatrix ? weight.detach().add(change) : weight.detach()] as const;
  });
  generator.dispose();
  return new Map(changed);
}
