/**
 * One run with a sampler that is stale and inexact, in this thread, so that a seed gives the same curve every time.
 *
 * The engine gets new weights every `syncInterval` steps, with Gaussian noise on them that is drawn anew each time, and has always
 * sampled as far ahead as the bound on staleness allows: the trained tokens are as old as they may be.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import { ChatFormat } from "../src/chat/conversation.ts";
import { loadTokenizer } from "../src/chat/tokenizer/load-tokenizer.ts";
import { envSource } from "../src/data/env-source.ts";
import type { Metrics } from "../src/flow/metrics.ts";
import { copyWeights } from "../src/generation/local/copy-weights.ts";
import { LocalEngine } from "../src/generation/local/local-engine.ts";
import type { ExperiencePart } from "../src/loops/loop-parts.ts";
import { runRolloutLoop } from "../src/loops/rollout-loop.ts";
import type { CausalLm } from "../src/models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../src/models/causal-lm/load-causal-lm.ts";
import { deriveSeed } from "../src/random/random.ts";
import { admitByStaleness } from "../src/rollout/admission.ts";
import { createEpisodeRunner, defaultEpisodeLimits } from "../src/rollout/episode.ts";
import { RolloutScheduler, type SchedulerOptions } from "../src/rollout/rollout-scheduler.ts";
import { buildExperience } from "../src/run/build-experience.ts";
import { prepareModel } from "../src/run/prepare-model.ts";
import { runConfig } from "../src/run/run-config.ts";
import { randn } from "../src/torch/create.ts";
import { Generator } from "../src/torch/random.ts";
import { tensorScope } from "../src/torch/scope.ts";
import type { Tensor } from "../src/torch/tensor.ts";
import { TrainerHost } from "../src/training/trainer-host.ts";
import { trainingOptions } from "../src/training/trainer-options.ts";
import { sortDigits } from "./sort-digits.ts";

export interface OffPolicySettings {
  readonly task: { readonly numDigits: number; readonly base: number };
  readonly steps: number;
  readonly groupsPerStep: number;
  readonly groupSize: number;
  /** Trajectories per update. */
  readonly minibatch: number;
  readonly lr: number;
  readonly syncInterval: number;
  /** In training steps. */
  readonly maxStaleness: number;
  /** The deviation of the noise on a matrix of the engine, as a share of the matrix's own. */
  readonly noise: number;
  /** Whether a quarter of each batch are past groups, those with large advantages first. */
  readonly replays: boolean;
  readonly evaluationPrompts: number;
  readonly stepsPerEvaluation: number;
}

export interface OffPolicyResult {
  /** Mean reward of the trainer's own weights on tasks that are never trained on. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
  /** Of every step. */
  readonly metrics: readonly Metrics[];
}

const clock = () => performance.now();
const place = { contextLength: 16, maxRunning: 256, isSteady: true };

export async function runOffPolicy(
  algorithm: RecipeChoice,
  settings: OffPolicySettings,
  seed: number,
): Promise<OffPolicyResult> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-off-policy-"));
  const modelFolder = await makeModel(folder, settings, seed);
  const host = await makeTrainer(modelFolder, algorithm, settings, seed);
  const models = [loadCausalLm(modelFolder), loadCausalLm(modelFolder)] as const;
  const [engine, judge] = [new LocalEngine(models[0], place), new LocalEngine(models[1], place)];
  try {
    return await train(host, engine, judge, modelFolder, settings, seed);
  } finally {
    await Promise.all([engine.close(), judge.close()]);
    for (const model of models) model.dispose();
    await host.close();
    rmSync(folder, { recursive: true });
  }
}

async function train(
  host: TrainerHost,
  engine: LocalEngine,
  judge: LocalEngine,
  modelFolder: string,
  settings: OffPolicySettings,
  seed: number,
): Promise<OffPolicyResult> {
  const { syncInterval, maxStaleness, groupsPerStep, groupSize, noise } = settings;
  const { signal } = new AbortController();
  const format = new ChatFormat(await loadTokenizer(modelFolder));
  const scheduler = makeScheduler(engine, format, "train", settings, seed, {
    groupSize,
    maxInFlight: 256,
    admission: admitByStaleness(maxStaleness, groupsPerStep),
    rest: "continue",
    maxStaleness,
  });
  const evaluate = async (): Promise<number> => {
    await host.withWeights(async (weights) => publish(judge, 0, weights));
    const rollout = makeScheduler(judge, format, "validation", settings, seed, { groupSize: 1, maxInFlight: 256 });
    const { metrics } = await rollout.take(settings.evaluationPrompts, signal);
    await rollout.close();
    return metrics["reward/mean"]!;
  };
  const points: { x: number; y: number }[] = [{ x: 0, y: await evaluate() }];
  const metrics: Metrics[] = [];
  await runRolloutLoop(
    {
      rollout: scheduler,
      experience: makeExperience(settings, seed),
      trainer: host,
      sync: {
        publish: async (version) => {
          await host.withWeights(async (weights) =>
            tensorScope(() =>
              publish(engine, version, noisy(weights, noise, deriveSeed(seed, "noise", version / syncInterval))),
            ),
          );
          return {};
        },
      },
      observer: {
        onRollout: () => untilIdle(engine),
        onStep: async ({ step }, measured) => {
          metrics.push(measured);
          if (step % settings.stepsPerEvaluation === 0) points.push({ x: step, y: await evaluate() });
          return "continue";
        },
      },
      groupsPerStep,
    },
    { step: 0 },
    { numSteps: settings.steps, syncInterval },
    signal,
  );
  await scheduler.close();
  return { points, metrics };
}

function makeModel(folder: string, { task }: OffPolicySettings, seed: number): Promise<string> {
  const model = { path: null, preset: "nano", dtype: "float32", lora: null, quantization: null } as const;
  return prepareModel({ model, seed }, [sortDigits(task)], folder);
}

function makeTrainer(
  modelFolder: string,
  algorithm: RecipeChoice,
  { lr, minibatch }: OffPolicySettings,
  seed: number,
): Promise<TrainerHost> {
  return TrainerHost.create({
    ...{ modelFolder, tokenizerFolder: modelFolder, device: "cpu", dtype: "float32" },
    ...{ lora: null, reference: null, critic: null, algorithm },
    training: trainingOptions.parse({ optimizer: { lr }, minibatch }),
    length: { numUpdates: 1, updatesPerRolloutStep: 1 },
    ...{ temperature: 1, seed },
  });
}

/** Groups are replayed for 16 steps after the oldest that may be sampled. */
function makeExperience({ lr, steps, maxStaleness, replays }: OffPolicySettings, seed: number): ExperiencePart {
  const replay = replays ? { maxAge: maxStaleness + 16 } : null;
  const run = { model: { preset: "nano" }, training: { optimizer: { lr } }, loop: { type: "sync", steps } };
  return buildExperience(runConfig.parse({ ...run, replay, seed }));
}

function makeScheduler(
  engine: LocalEngine,
  format: ChatFormat,
  part: "train" | "validation",
  { task }: OffPolicySettings,
  seed: number,
  options: SchedulerOptions,
): RolloutScheduler {
  const env = sortDigits(task);
  const runEpisode = createEpisodeRunner({
    generate: engine.generate,
    makeEnv: env.makeEnv,
    format,
    sampling: { maxTokens: task.numDigits, temperature: 1 },
    limits: { ...defaultEpisodeLimits, contextLength: place.contextLength },
    clock,
  });
  const source = envSource({ name: "sort", makePrompt: env.makePrompt!, part, seed });
  return new RolloutScheduler({ runEpisode, sources: [{ share: 1, source }], options, seed, clock });
}

/** Everything that may be sampled ahead is there before the step begins. */
async function untilIdle(engine: LocalEngine): Promise<void> {
  for (let numIdle = 0; numIdle < 3; await setImmediate()) {
    const { runningRequests, queuedRequests } = engine.status();
    numIdle = runningRequests + queuedRequests === 0 ? numIdle + 1 : 0;
  }
}

function publish(engine: LocalEngine, version: number, weights: ReadonlyMap<string, Tensor>): void {
  engine.updateWeights(version, (model: CausalLm) => copyWeights(model, weights));
}

/** Weights as an inexact engine has them. */
function noisy(weights: ReadonlyMap<string, Tensor>, noise: number, seed: number): ReadonlyMap<string, Tensor> {
  if (noise === 0) return weights;
  const generator = new Generator(seed);
  const changed = [...weights].map(([name, weight]) => {
    if (weight.shape.length === 1) return [name, weight] as const;
    const exact = weight.detach();
    return [name, exact.add(randn(exact.shape, { generator }).mul(exact.std().mul(noise)))] as const;
  });
  generator.dispose();
  return new Map(changed);
}
