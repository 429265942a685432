/**
 * Whether preference runs and reward models learn what is true: a supervised start, then each objective, on a preference whose truth is
 * known (synthetic-preference.ts). Three seeds.
 *
 * npm run bench -- preference [seeds, as in 3 or 4-6] [objectives, as in dpo,kto]
 *
 * Held-out pairs are labeled by their true worth. The win rate is that of replies of the tuned model over replies of the supervised start
 * to the same prompts, sampled at temperature 1 and judged by the true reward; a tie counts half.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { encodeChat } from "../src/chat/template/chat-template.ts";
import { loadTokenizer } from "../src/chat/tokenizer/load-tokenizer.ts";
import type { Metrics } from "../src/flow/metrics.ts";
import { startThreadedEngine } from "../src/generation/local/threaded-engine.ts";
import { deriveSeed } from "../src/random/random.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { prepareTuning } from "../src/tuning/prepare-tuning.ts";
import { trainTuning } from "../src/tuning/train-tuning.ts";
import { defineTuning } from "../src/tuning/tuning-config.ts";
import { readSeeds } from "./read-seeds.ts";
import { printTable, writeResult } from "./report.ts";
import { drawPrompt, trueReward, writeSynthetic } from "./synthetic-preference.ts";

type TuningFile = Parameters<typeof defineTuning>[0];

const seeds = readSeeds(process.argv[2] ?? "3");
const asked = process.argv[3]?.split(",");
const NUM_PROMPTS = 512;

const objectives: Readonly<Record<string, { objective: TuningFile["objective"]; lr: number }>> = {
  dpo: { objective: { type: "dpo", beta: 0.1 }, lr: 1e-4 },
  "dpo-per-token": { objective: { type: "dpo", beta: 1, lengthNormalized: true }, lr: 1e-4 },
  "dpo-smoothed": { objective: { type: "dpo", beta: 0.1, labelSmoothing: 0.04 }, lr: 1e-4 },
  ipo: { objective: { type: "ipo", beta: 0.5 }, lr: 1e-4 },
  kto: { objective: { type: "kto", beta: 0.1 }, lr: 1e-4 },
  orpo: { objective: { type: "orpo", beta: 1 }, lr: 1e-4 },
  simpo: { objective: { type: "simpo", beta: 2, margin: 0.5 }, lr: 1e-4 },
};

interface Outcome {
  readonly seed: number;
  readonly name: string;
  readonly accuracy: number;
  readonly marginBefore: number | null;
  readonly margin: number | null;
  readonly trueReward: number | null;
  readonly winRate: number | null;
  readonly seconds: number;
}

interface Tuned {
  readonly folder: string;
  readonly first: Metrics;
  readonly last: Metrics;
  readonly seconds: number;
}

async function tune(root: string, file: TuningFile): Promise<Tuned> {
  const run = await prepareTuning({ ...defineTuning({ device: "cpu", checkpoint: { every: 0 }, ...file }) }, [], {});
  const folder = join(root, file.name ?? "run");
  mkdirSync(folder);
  const validations: Metrics[] = [];
  const started = performance.now();
  const tracker = {
    ...silentTracker,
    log: (_step: number, kind: string, metrics: Metrics) => void (kind === "validation" && validations.push(metrics)),
  };
  const open = { folder, tracker, signal: new AbortController().signal, isResumed: false };
  const { modelFolder } = await trainTuning(run, open, () => performance.now());
  const seconds = (performance.now() - started) / 1000;
  return { folder: modelFolder, first: validations[0]!, last: validations.at(-1)!, seconds };
}

/** One reply of a model to each prompt. */
async function sample(folder: string, prompts: readonly string[], seed: number): Promise<readonly string[]> {
  const tokenizer = await loadTokenizer(folder);
  const engine = await startThreadedEngine({ folder, tokenizerFolder: folder, options: { contextLength: 64 } });
  try {
    return await Promise.all(
      prompts.map(async (prompt, i) => {
        const promptIds = encodeChat(tokenizer, [{ role: "user", content: prompt }], { addGenerationPrompt: true });
        const sampling = { maxTokens: 16, seed: deriveSeed(seed, "sample", i), stopIds: tokenizer.stopIds };
        const { tokenIds } = await engine.generate({ promptIds, sampling });
        return tokenizer.decode(tokenIds);
      }),
    );
  } finally {
    await engine.close();
  }
}

async function runSeed(seed: number): Promise<readonly Outcome[]> {
  const root = mkdtempSync(join(tmpdir(), "reroll-preference-"));
  try {
    const sizes = {
      model: { preset: "nano" },
      numReplies: 4000,
      numPairs: 3000,
      numTestPairs: 500,
      numPrompts: 1,
    } as const;
    const files = writeSynthetic(join(root, "data"), seed, sizes);
    const data = (path: string) => ({ type: "jsonl", path }) as const;
    const base = { seed, contextLength: 64 };
    const start = await tune(root, {
      ...base,
      name: "start",
      model: { path: files.model },
      objective: { type: "supervised" },
      data: data(files.replies),
      loop: { epochs: 4, rowsPerStep: 64 },
      training: { optimizer: { lr: 3e-3 }, schedule: { type: "cosine" }, threads: 1 },
      validation: { share: 0.05 },
    });
    const prompts = Array.from({ length: NUM_PROMPTS }, (_, i) => drawPrompt(deriveSeed(seed, "judged", i)));
    const rewards = async (folder: string, which: string) => {
      const replies = await sample(folder, prompts, deriveSeed(seed, which));
      return replies.map((reply, i) => trueReward(prompts[i]!, reply));
    };
    const before = await rewards(start.folder, "start");
    console.log(`seed ${seed}: true reward of the supervised start ${mean(before).toFixed(3)}`);
    const outcomes: Outcome[] = [
      {
        ...{ seed, name: "supervised start", accuracy: Number.NaN, marginBefore: null, margin: null },
        ...{ trueReward: mean(before), winRate: 0.5, seconds: start.seconds },
      },
    ];
    const train = (name: string, objective: TuningFile["objective"], lr: number) =>
      tune(root, {
        ...base,
        name,
        model: { path: start.folder },
        objective,
        data: data(files.pairs),
        loop: { epochs: 2, rowsPerStep: 64 },
        training: { optimizer: { lr }, threads: 1 },
        validation: { data: data(files.testPairs), metric: "preference/accuracy" },
      });
    for (const [name, { objective, lr }] of Object.entries(objectives)) {
      if (asked !== undefined && !asked.includes(name)) continue;
      const { folder, first, last, seconds } = await train(name, objective, lr);
      const after = await rewards(folder, name);
      const wins = after.map((reward, i) => (reward > before[i]! ? 1 : reward === before[i] ? 0.5 : 0));
      outcomes.push({
        ...{ seed, name, accuracy: last["validation/preference/accuracy"]!, seconds },
        marginBefore: first["validation/preference/margin"]!,
        margin: last["validation/preference/margin"]!,
        ...{ trueReward: mean(after), winRate: mean(wins) },
      });
      console.log(JSON.stringify(outcomes.at(-1)));
    }
    const { last, seconds } = await train("reward-model", { type: "reward-model", centering: 0.01 }, 1e-3);
    outcomes.push({
      ...{ seed, name: "reward model", accuracy: last["validation/preference/accuracy"]!, seconds },
      ...{ marginBefore: null, margin: last["validation/preference/margin"]!, trueReward: null, winRate: null },
    });
    console.log(JSON.stringify(outcomes.at(-1)));
    return outcomes;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

const outcomes: Outcome[] = [];
for (const seed of seeds) outcomes.push(...(await runSeed(seed)));
const shown = (value: number | null) => (value === null || Number.isNaN(value) ? "" : value.toFixed(3));
printTable(
  "held-out pairs, and replies judged by the true reward",
  ["objective", "seed", "accuracy", "margin before", "margin", "true reward", "win rate", "seconds"],
  outcomes.map(({ seed, name, accuracy, marginBefore, margin, trueReward: reward, winRate, seconds }) => [
    ...[name, String(seed), ...[accuracy, marginBefore, margin, reward, winRate].map(shown), seconds.toFixed(0)],
  ]),
);
writeResult(`preference${seeds[0] === 1 ? "" : `-seeds-${process.argv[2]}`}`, {
  seeds,
  numPrompts: NUM_PROMPTS,
  outcomes,
});
