/**
 * What the threads of a run do themselves in a GRPO step, beside engine and trainer: the time in which a GPU waits for them.
 *
 * node --import tsx bench/controller-step.ts --model <folder of a chat model> [--steps 30] [--groups 64] [--group-size 16] [--tokens 320]
 * The run of bench/gpu/loop.ts, with a run's own tokenizer, rollout, rewards and batches. Its engine, in a thread as always, answers all requests of a
 * rollout in one turn as soon as the last has come; its trainer takes the batch and says that it has trained. Medians and least of the steps behind the
 * third, in milliseconds; processor time where the system says that of a thread. Of the model only config and tokenizer are read. On a machine that others
 * use no result is kept.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadTokenizer } from "../src/chat/tokenizer/load-tokenizer.ts";
import { openThreadedEngine } from "../src/generation/local/threaded-engine.ts";
import { EnginePool } from "../src/generation/pool/engine-pool.ts";
import { Seat } from "../src/generation/pool/seat.ts";
import type { RewardInput } from "../src/rewards/reward.ts";
import { buildEpisodes, buildWorld } from "../src/run/build-rollout.ts";
import type { RunParts } from "../src/run/open-parts.ts";
import { PastVersions } from "../src/run/past-versions.ts";
import { resolveRun } from "../src/run/resolve-run.ts";
import { trainWith } from "../src/run/train-run.ts";
import { loggedTrainer } from "../src/run/trainer-workers.ts";
import { type RunTracker, silentTracker } from "../src/tracking/run-tracker.ts";
import { trainerLost } from "../src/training/threaded-trainer.ts";
import type { Trainer } from "../src/training/trainer.ts";
import { createLentWeightsSync } from "../src/weight-sync/lent-weights-sync.ts";
import { startInThread } from "../src/workers/start-in-thread.ts";
import { tensorCarrier } from "../src/workers/tensor-carrier.ts";
import { wordRows } from "./gpu/word-task.ts";
import { printTable, writeQuietResult } from "./report.ts";
import type { ScriptedEngineSource } from "./scripted-engine-worker.ts";
import { MARKS, type Mark, markMemory, note } from "./step-marks.ts";

const { values } = parseArgs({
  options: {
    steps: { type: "string", default: "30" },
    model: { type: "string" },
    groups: { type: "string", default: "64" },
    "group-size": { type: "string", default: "16" },
    tokens: { type: "string", default: "320" },
  },
});
if (values.model === undefined) {
  console.error("Usage: npm run bench -- controller-step --model <folder of a chat model>");
  process.exit(2);
}
const model = values.model;
/** Steps in which code is compiled and memory grows. */
const WARM_STEPS = 3;
const [steps, groupsPerStep, groupSize, maxTokens] = [
  values.steps,
  values.groups,
  values["group-size"],
  values.tokens,
].map(Number) as [number, number, number, number];
const contextLength = maxTokens + 64;
const clock = () => performance.now();
const marks = markMemory();
const { config, recipe } = resolveRun({
  seed: 1,
  model: { path: model },
  data: { type: "rows", rows: wordRows("training", groupsPerStep * steps, 1), shuffle: false, name: "words" },
  rewards: { default: { type: "custom", name: "words", cost: "cpu", score: shareOfWords } },
  rollout: {
    ...{ groupsPerStep, groupSize, contextLength, sampling: { maxTokens } },
    maxInFlight: groupsPerStep * groupSize,
  },
  engine: { maxRunning: groupsPerStep * groupSize },
  algorithm: { type: "grpo" },
  training: { optimizer: { lr: 1e-6 }, maxTokensPerMicrobatch: 65_536 },
  loop: { type: "sync", steps },
  checkpoint: { every: 0, minutes: null },
});
const folder = mkdtempSync(join(tmpdir(), "controller-step-"));
const seen: Record<Mark, { readonly wall: number; readonly cpu: number }>[] = [];
const parts = await openParts();
note(marks, "stepBegin");
await trainWith(parts, config, recipe, {
  ...{ folder, clock, tracker: tracker(), signal: new AbortController().signal, isResumed: false },
});
await parts.close();
rmSync(folder, { recursive: true, force: true });
report();
process.exit(0);

async function openParts(): Promise<RunParts> {
  const world = await buildWorld(config, clock);
  const tokenizer = await loadTokenizer(model);
  const words = wordRows("training", 4000, 2).map(
    ({ truth }) => `Once upon a time a ${truth.join(" and a little ")}. `,
  );
  const source: ScriptedEngineSource = {
    ...{ numReplies: groupsPerStep * groupSize, numTokens: maxTokens, contextLength, marks },
    vocabSize: tokenizer.vocabularySize,
    text: tokenizer.encode(words.join("")),
  };
  const seat = await Seat.open({
    ...{ name: "engine", worker: "engine", bringsWeights: false, log: silentTracker.work },
    open: () => openThreadedEngine(new URL("scripted-engine-worker", import.meta.url), source),
  });
  const pool = new EnginePool([seat], { seed: config.seed });
  const worker = startInThread<Trainer>(
    new URL("idle-trainer-worker", import.meta.url),
    { marks },
    { carrier: tensorCarrier, lost: trainerLost },
  );
  await worker.ready;
  const place = { name: "trainer rank 0", runsIn: "thread", device: "cpu" } as const;
  const trainer = loggedTrainer(worker.ask, [place], silentTracker.work);
  let isLent = false;
  const engines = [
    {
      isBorrowing: () => isLent,
      shareWeights: (version: number) => seat.give((engine) => engine.shareWeights(version, new Map())),
      renewWeights: (version: number) => seat.give((engine) => engine.renewWeights(version)),
    },
  ];
  const lent = createLentWeightsSync({ withParameters: (use) => trainer.withParameters(use), engines, clock });
  const past = await PastVersions.open({
    ...{ intervals: [], runFolder: folder, clock },
    startEngine: () => Promise.reject(new Error("There are no past versions.")),
  });
  const episodesAt = (temperature: number) => {
    const shared = { generate: pool.generate, tokenizer, clock, sessionPrefix: "0/" };
    return buildEpisodes(config, world, { ...shared, training: { teachers: null } }, temperature);
  };
  return {
    ...{ world, tokenizer, past, trainer, episodesAt, trainingEpisodes: () => episodesAt(1) },
    engine: {
      ...{ pool, statements: [], workers: () => [], close: () => pool.close() },
      syncFrom: () => ({
        publish: async (version) => {
          const metrics = await lent.publish(version);
          isLent = true;
          return metrics;
        },
      }),
      rest: async () => void (await seat.ask((engine) => engine.hold())),
      goOn: async () => {},
    },
    workers: async () => (await trainer.memory()).map((held) => ({ ...place, ...held })),
    close: async () => {
      await pool.close();
      await worker.close();
      await world.close();
    },
  };
}

function tracker(): RunTracker {
  const begin = { rollout: "rolloutBegin", train: "trainBegin", sync: null } as const;
  const end = { rollout: "rolloutEnd", train: "trainEnd", sync: "syncEnd" } as const;
  return {
    ...silentTracker,
    span: async (stage, work) => {
      const isLoop = stage === "rollout" || stage === "train" || stage === "sync";
      if (isLoop && begin[stage] !== null) note(marks, begin[stage]);
      const result = await work();
      if (isLoop) note(marks, end[stage]);
      return result;
    },
    log: (_, kind) => {
      if (kind !== "train") return;
      note(marks, "stepEnd");
      seen.push(
        Object.fromEntries(
          MARKS.map((mark, i) => [mark, { wall: marks.wall[i]!, cpu: marks.cpu[i]! }]),
        ) as (typeof seen)[0],
      );
      note(marks, "stepBegin");
    },
  };
}

async function shareOfWords({ reply, prompt: { truth } }: RewardInput) {
  const words = Array.isArray(truth) ? truth : [];
  return { value: words.filter((word) => reply.includes(String(word))).length / Math.max(1, words.length) };
}

function report(): void {
  const counted = seen.slice(WARM_STEPS);
  const phases: readonly { readonly name: string; readonly from: Mark; readonly to: Mark }[] = [
    { name: "until the first request is with the engine", from: "stepBegin", to: "firstRequest" },
    { name: "until the last", from: "firstRequest", to: "lastRequest" },
    { name: "the engine's thread takes and answers them", from: "lastRequest", to: "repliesSent" },
    { name: "replies to groups", from: "repliesSent", to: "rolloutEnd" },
    { name: "groups to a batch", from: "rolloutEnd", to: "trainBegin" },
    { name: "the batch to the trainer", from: "trainBegin", to: "batchTaken" },
    { name: "the trainer's answer, publication, metrics", from: "batchTaken", to: "stepEnd" },
    { name: "all", from: "stepBegin", to: "stepEnd" },
  ];
  const rows = phases.map(({ name, from, to }) => {
    const wall = counted.map((step) => step[to].wall - step[from].wall);
    return { name, median: median(wall), least: Math.min(...wall) };
  });
  const cpu = counted.map((step) => step.stepEnd.cpu - step.stepBegin.cpu);
  rows.push({ name: "processor time of the controller", median: median(cpu), least: Math.min(...cpu) });
  const cells = rows.map(({ name, median: middle, least }) => [name, middle.toFixed(1), least.toFixed(1)]);
  printTable(
    `${groupsPerStep} x ${groupSize} replies of ${maxTokens} tokens`,
    ["phase", "median ms", "least ms"],
    cells,
  );
  writeQuietResult("controller-step", {
    task: { groupsPerStep, groupSize, maxTokens, model: model.split("/").at(-1) },
    steps,
    phases: rows,
  });
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
