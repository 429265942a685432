/**
 * The whole of RLHF on a CPU: supervised start, reward model, PPO with actor, critic, reference and reward model, on a preference whose
 * truth is known (synthetic-preference.ts). PPO never sees the truth: it is a part of the reward with weight 0, there to be measured.
 *
 * npm run bench -- rlhf [seeds]
 *
 * Accuracy is on held-out pairs, labeled by their true worth. Rewards are those of replies sampled at temperature 1; KL is that to the
 * supervised start, in nats per token, at the last step and at most.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
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
import { printTable, writeResult } from "./report.ts";
import { type SyntheticFiles, trueReward, writeSynthetic } from "./synthetic-preference.ts";

const numSeeds = Number(process.argv[2] ?? 3);
const sizes = { preset: "nano", numReplies: 4000, numPairs: 6000, numTestPairs: 500, numPrompts: 2000 } as const;
const schedule = { type: "cosine" } as const;
const data = (path: string) => ({ type: "jsonl", path }) as const;

const supervised = (seed: number, files: SyntheticFiles) =>
  defineTuning({
    ...{ name: "supervised", seed, device: "cpu", model: { path: files.model }, contextLength: 64 },
    objective: { type: "supervised" },
    data: data(files.replies),
    loop: { epochs: 2, rowsPerStep: 64 },
    training: { optimizer: { lr: 3e-3 }, schedule },
    validation: { share: 0.05 },
  });

const rewardModel = (seed: number, files: SyntheticFiles, start: string) =>
  defineTuning({
    ...{ name: "reward-model", seed, device: "cpu", model: { path: start }, contextLength: 64 },
    objective: { type: "reward-model", centering: 0.01 },
    data: data(files.pairs),
    loop: { epochs: 3, rowsPerStep: 64 },
    training: { optimizer: { lr: 1e-3 }, schedule },
    validation: { data: data(files.testPairs) },
  });

const ppo = (seed: number, files: SyntheticFiles, start: string, judge: string) =>
  defineRun({
    ...{ name: "ppo", seed, device: "cpu", model: { path: start } },
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
    rollout: { groupsPerStep: 64, groupSize: 1, contextLength: 32, sampling: { maxTokens: 12 } },
    algorithm: {
      type: "ppo",
      numEpochs: 2,
      klReward: { coefficient: 0.2, adaptive: { targetKl: 0.1, horizon: 100 } },
      rewardNormalization: {},
      truncatedPenalty: 1,
      rewardClip: 5,
    },
    critic: { path: judge, warmupUpdates: 10, optimizer: { lr: 1e-3 } },
    training: { optimizer: { lr: 3e-4 }, minibatch: 32 },
    loop: { type: "sync", steps: 40 },
    validation: { prompts: 256, temperature: 1, data: { ...data(files.prompts), domain: "lists" } },
  });

function measureTruth({ messages, reply }: RewardInput) {
  return { value: trueReward(String(messages[0]?.content), reply) };
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
  readonly seconds: number;
}

/** The folder of the weights, and the metrics of validations and steps. */
interface Stage {
  readonly model: string;
  readonly validations: readonly Metrics[];
  readonly steps: readonly Metrics[];
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
  const { modelFolder } =
    "objective" in run
      ? await trainTuning(await prepareTuning({ ...run }, [], {}), open, clock)
      : await trainRun((await prepareRun({ ...run }, [], {})).config, { ...open, clock });
  return { model: modelFolder, validations, steps };
}

async function runSeed(seed: number): Promise<Outcome> {
  const root = mkdtempSync(join(tmpdir(), "reroll-rlhf-"));
  const started = performance.now();
  try {
    const files = writeSynthetic(join(root, "data"), seed, sizes);
    const start = await runStage(root, supervised(seed, files));
    const judge = await runStage(root, rewardModel(seed, files, start.model));
    const actor = await runStage(root, ppo(seed, files, start.model, judge.model));
    const [before, after] = [actor.validations[0]!, actor.validations.at(-1)!];
    const kls = actor.steps.map((step) => step["score/reference_kl"]!);
    return {
      seed,
      accuracy: judge.validations.at(-1)!["validation/preference/accuracy"]!,
      trueBefore: before["validation/reward/total/truth"]!,
      trueAfter: after["validation/reward/total/truth"]!,
      judgedBefore: before["validation/reward/total/reward-model"]!,
      judgedAfter: after["validation/reward/total/reward-model"]!,
      kl: kls.at(-1)!,
      largestKl: Math.max(...kls),
      seconds: (performance.now() - started) / 1000,
    };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const outcomes: Outcome[] = [];
for (let seed = 1; seed <= numSeeds; seed++) {
  outcomes.push(await runSeed(seed));
  console.log(outcomes.at(-1));
}
printTable(
  "Supervised start, reward model, PPO",
  ["seed", "accuracy", "true reward", "after PPO", "judged", "after PPO", "KL", "largest KL", "seconds"],
  outcomes.map((one) => [
    String(one.seed),
    ...[one.accuracy, one.trueBefore, one.trueAfter, one.judgedBefore, one.judgedAfter, one.kl, one.largestKl].map(
      (value) => value.toFixed(3),
    ),
    one.seconds.toFixed(0),
  ]),
);
writeResult("rlhf", { sizes, outcomes });
