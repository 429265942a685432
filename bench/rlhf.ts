/**
 * The whole of RLHF on a CPU: supervised start, reward model, PPO with actor, critic, reference and reward model, on a preference whose
 * truth is known (synthetic-preference.ts). PPO never sees the truth: it is a part of the reward with weight 0, there to be measured.
 *
 * npm run bench -- rlhf [seeds, as in 3 or 4-6] [folder of a chat model]
 *
 * Without a folder it starts from nothing, with the preset nano. A chat model knows the words already and takes lower rates and less data;
 * its pairs differ by a quarter of what a reply can be worth, or more.
 *
 * Accuracy is on held-out pairs, labeled by their true worth. Rewards are those of replies sampled at temperature 1; KL is that to the
 * supervised start, in nats per token, at the last step and at most.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import type { Metrics } from "../src/flow/metrics.ts";
import type { RewardInput } from "../src/rewards/reward.ts";
import { defineRun } from "../src/run/define-run.ts";
import { prepareRun } from "../src/run/prepare-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { prepareTuning } from "../src/tuning/prepare-tuning.ts";
import { trainTuning } from "../src/tuning/train-tuning.ts";
import { defineTuning } from "../src/tuning/tuning-config.ts";
import { readSeeds } from "./read-seeds.ts";
import { printTable, writeResult } from "./report.ts";
import { type SyntheticFiles, trueReward, writeSynthetic } from "./synthetic-preference.ts";

const seeds = readSeeds(process.argv[2] ?? "3");
const chatModel = process.argv[3];

/** What follows from the size of the model and from whether it has learned anything before. */
const scales = {
  nano: {
    sizes: { numReplies: 4000, numPairs: 6000, numTestPairs: 500, numPrompts: 2000 },
    supervised: { epochs: 2, rowsPerStep: 64, lr: 3e-3, warmup: 0 },
    rewardModel: { epochs: 3, rowsPerStep: 64, lr: 1e-3, warmup: 0, centering: 0.01 },
    ppo: {
      ...{ numSteps: 40, groupsPerStep: 64, numEpochs: 2, maxTokens: 12, minibatch: 32 },
      lr: 3e-4,
      criticLr: 1e-3,
      warmupUpdates: 10,
      klReward: { coefficient: 0.2, adaptive: { targetKl: 0.1, horizon: 100 } },
    },
  },
  chat: {
    sizes: { numReplies: 960, numPairs: 4800, numTestPairs: 300, numPrompts: 2000, minGap: 0.25, system: "" },
    supervised: { epochs: 1, rowsPerStep: 32, lr: 2e-4, warmup: 4 },
    rewardModel: { epochs: 1, rowsPerStep: 32, lr: 5e-5, warmup: 10, centering: 0 },
    ppo: {
      ...{ numSteps: 11, groupsPerStep: 48, numEpochs: 1, maxTokens: 24, minibatch: 24 },
      lr: 1.5e-5,
      criticLr: 5e-5,
      warmupUpdates: 2,
      klReward: { coefficient: 0.3, adaptive: { targetKl: 0.1, horizon: 200 } },
    },
  },
} as const;
const scale = chatModel === undefined ? scales.nano : scales.chat;
const model = chatModel === undefined ? ({ preset: "nano" } as const) : { path: chatModel };
/** The CPU for the preset; a chat model takes a GPU where there is one. */
const device = chatModel === undefined ? "cpu" : "auto";
const data = (path: string) => ({ type: "jsonl", path }) as const;

const supervised = (seed: number, files: SyntheticFiles) =>
  defineTuning({
    ...{ name: "supervised", seed, device, model: { path: files.model }, contextLength: 64 },
    objective: { type: "supervised" },
    data: data(files.replies),
    loop: { epochs: scale.supervised.epochs, rowsPerStep: scale.supervised.rowsPerStep },
    training: { optimizer: { lr: scale.supervised.lr }, schedule: { type: "cosine", warmup: scale.supervised.warmup } },
    validation: { share: 0.05 },
  });

const rewardModel = (seed: number, files: SyntheticFiles, start: string) =>
  defineTuning({
    ...{ name: "reward-model", seed, device, model: { path: start }, contextLength: 64 },
    objective: { type: "reward-model", centering: scale.rewardModel.centering },
    data: data(files.pairs),
    loop: { epochs: scale.rewardModel.epochs, rowsPerStep: scale.rewardModel.rowsPerStep },
    training: {
      optimizer: { lr: scale.rewardModel.lr },
      schedule: { type: "cosine", warmup: scale.rewardModel.warmup },
    },
    validation: { data: data(files.testPairs) },
  });

const ppo = (seed: number, files: SyntheticFiles, start: string, judge: string) =>
  defineRun({
    ...{ name: "ppo", seed, device, model: { path: start } },
    data: { ...data(files.prompts), domain: "lists" },
    rewards: {
      lists: {
        type: "combine",
        mode: "weighted",
        parts: [
          { weight: 1, reward: { type: "reward-model", path: judge } },
          { weight: 0, reward: { type: "custom", name: "truth", score: measureTruth } },
        ],
      },
    },
    rollout: {
      groupsPerStep: scale.ppo.groupsPerStep,
      groupSize: 1,
      contextLength: 64,
      sampling: { maxTokens: scale.ppo.maxTokens },
    },
    algorithm: {
      type: "ppo",
      numEpochs: scale.ppo.numEpochs,
      klReward: scale.ppo.klReward,
      rewardNormalization: {},
      truncatedPenalty: 1,
      rewardClip: 5,
    },
    critic: { path: judge, warmupUpdates: scale.ppo.warmupUpdates, optimizer: { lr: scale.ppo.criticLr } },
    training: { optimizer: { lr: scale.ppo.lr }, minibatch: scale.ppo.minibatch },
    loop: { type: "sync", steps: scale.ppo.numSteps },
    validation: { prompts: 256, temperature: 1, data: { ...data(files.prompts), domain: "lists" } },
  });

function measureTruth({ messages, reply }: RewardInput) {
  return { value: trueReward(String(messages.find(({ role }) => role === "user")?.content), reply) };
}

interface Outcome {
  readonly seed: number;
  readonly accuracy: number;
  readonly trueBefore: number;
  readonly trueAfter: number;
  readonly judgedBefore: number;
  readonly judgedAfter: number;
  readonly kl: number;
  readonly largestKl: number;
  /** Wall time of the three stages. */
  readonly seconds: readonly number[];
  /** Runnable tasks over the last minute, at the end. */
  readonly load: number;
}

/** The folder of the weights, and the metrics of validations and steps. */
interface Stage {
  readonly model: string;
  readonly validations: readonly Metrics[];
  readonly steps: readonly Metrics[];
  readonly seconds: number;
}

async function runStage(root: string, run: ReturnType<typeof supervised> | ReturnType<typeof ppo>): Promise<Stage> {
  const folder = join(root, String(run.name));
  mkdirSync(folder);
  const validations: Metrics[] = [];
  const steps: Metrics[] = [];
  const tracker = {
    ...silentTracker,
    log: (_: number, kind: string, metrics: Metrics) =>
      void (kind === "validation" ? validations : steps).push(metrics),
  };
  const open = { folder, tracker, signal: new AbortController().signal, isResumed: false };
  const clock = () => performance.now();
  const started = clock();
  const { modelFolder } =
    "objective" in run
      ? await trainTuning(await prepareTuning({ ...run }, [], {}), open, clock)
      : await trainRun((await prepareRun({ ...run }, [], {})).config, { ...open, clock });
  const seconds = (clock() - started) / 1000;
  console.log(`${run.name}: ${seconds.toFixed(0)} s, load average ${loadavg()[0]?.toFixed(1)}`);
  return { model: modelFolder, validations, steps, seconds };
}

async function runSeed(seed: number): Promise<Outcome> {
  const root = mkdtempSync(join(tmpdir(), "reroll-rlhf-"));
  try {
    const files = writeSynthetic(join(root, "data"), seed, { ...scale.sizes, model });
    const start = await runStage(root, supervised(seed, files));
    const judge = await runStage(root, rewardModel(seed, files, start.model));
    const accuracy = judge.validations.at(-1)!["validation/preference/accuracy"]!;
    console.log(`seed ${seed}: the reward model orders ${(100 * accuracy).toFixed(1)} % of the held-out pairs`);
    const actor = await runStage(root, ppo(seed, files, start.model, judge.model));
    const [before, after] = [actor.validations[0]!, actor.validations.at(-1)!];
    const kls = actor.steps.map((step) => step["score/reference_kl"]!);
    return {
      seed,
      accuracy,
      trueBefore: before["validation/reward/total/truth"]!,
      trueAfter: after["validation/reward/total/truth"]!,
      judgedBefore: before["validation/reward/total/reward-model"]!,
      judgedAfter: after["validation/reward/total/reward-model"]!,
      kl: kls.at(-1)!,
      largestKl: Math.max(...kls),
      seconds: [start, judge, actor].map((stage) => stage.seconds),
      load: loadavg()[0]!,
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const outcomes: Outcome[] = [];
for (const seed of seeds) {
  outcomes.push(await runSeed(seed));
  console.log(outcomes.at(-1));
}
printTable(
  "Supervised start, reward model, PPO",
  ["seed", "accuracy", "true reward", "after PPO", "judged", "after PPO", "KL", "largest KL", "seconds", "load"],
  outcomes.map((one) => [
    String(one.seed),
    ...[one.accuracy, one.trueBefore, one.trueAfter, one.judgedBefore, one.judgedAfter, one.kl, one.largestKl].map(
      (value) => value.toFixed(3),
    ),
    one.seconds.map((value) => value.toFixed(0)).join(" + "),
    one.load.toFixed(1),
  ]),
);
writeResult(`rlhf${chatModel === undefined ? "" : "-chat"}`, { scale, outcomes });
