/**
 * PPO with policy, critic, reference, reward model and engine on one GPU, in one process or in a process each, awake or asleep when they are not needed: what
 * each process takes at its peak beside what the plan says of its roles, and the time of a step.
 *
 * npm run bundle -- bench/gpu/roles.ts && sh pack/run.sh roles --model <folder> [--only apart,together,asleep,grpo] [--out file]
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { WorkerFacts } from "../../src/flow/worker-facts.ts";
import { saveValueHead, ValueHead } from "../../src/models/causal-lm/value-head.ts";
import { modelShape, roleShapes } from "../../src/run/check-files.ts";
import { deviceMemory } from "../../src/run/device-memory.ts";
import { type MemoryPart, peakBytes } from "../../src/run/estimate-memory.ts";
import { placeRun } from "../../src/run/machine.ts";
import { stepSecondsOf } from "../../src/run/plan-placements.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { hasLentEngines } from "../../src/run/shares-weights.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { zeros } from "../../src/torch/create.ts";
import { cudaDeviceCount, resetCudaPeak } from "../../src/torch/cuda.ts";
import { Generator } from "../../src/torch/random.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { describeMachine } from "../report.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    only: { type: "string", default: "apart,together,grpo,asleep,apart-asleep" },
    groups: { type: "string", default: "16" },
    "max-tokens": { type: "string", default: "96" },
    steps: { type: "string", default: "3" },
    out: { type: "string" },
  },
});
if (values.model === undefined) throw new Error("--model is missing: a folder in Hugging Face layout.");
const model = values.model;
const isOnGpu = cudaDeviceCount() > 0;
const process_ = { workers: "processes" } as const;
const asleep = { sleep: true } as const;
const PLACEMENTS: Readonly<Record<string, object>> = {
  together: {},
  apart: { engine: process_, reference: process_, critic: process_, reward: process_ },
  asleep: { trainer: asleep, engine: asleep, reference: asleep, critic: asleep, reward: asleep },
  "apart-asleep": {
    ...{ trainer: asleep, engine: process_, reference: { ...process_, ...asleep } },
    ...{ critic: { workers: "threads", ...asleep }, reward: { ...process_, ...asleep } },
  },
};

const results = [];
for (const name of values.only.split(",")) {
  const result = { name, ...(await measure(name)) };
  results.push(result);
  console.log(JSON.stringify(result));
  if (values.out !== undefined)
    writeFileSync(values.out, `${JSON.stringify({ name: "roles", machine: describeMachine(), results }, null, 2)}\n`);
}
process.exit(0);

async function measure(name: string) {
  const startedMs = performance.now();
  const root = mkdtempSync(join(tmpdir(), "roles-"));
  const judge = writeJudge(join(root, "judge"));
  const isPpo = name !== "grpo";
  const [groups, groupSize, maxTokens] = [
    isPpo ? Number(values.groups) : 32,
    isPpo ? 8 : 16,
    Number(values["max-tokens"]),
  ];
  // A reward that differs within a group, whatever the model says.
  const score = ({ reply }: { readonly reply: string }) => ({ value: reply.length % 2 });
  const { config, recipe } = await prepareRun(
    {
      model: { path: model },
      data: {
        type: "rows",
        rows: wordRows("training", groups * Number(values.steps), 1),
        shuffle: false,
        name: "words",
      },
      rewards: isPpo
        ? { default: { type: "reward-model", path: judge, device: isOnGpu ? "cuda:0" : "cpu" } }
        : { default: { type: "custom", name: "parity", score } },
      rollout: {
        ...{ groupsPerStep: groups, groupSize, maxInFlight: groups * groupSize, contextLength: maxTokens + 160 },
        sampling: { maxTokens },
      },
      algorithm: isPpo ? { type: "ppo", klReward: { coefficient: 0.05 } } : { type: "grpo" },
      training: { optimizer: { lr: 1e-6 } },
      loop: { type: "sync", steps: Number(values.steps) },
      placement: PLACEMENTS[name] ?? {},
      checkpoint: { every: 0, minutes: null },
    },
    [],
    {},
  );
  const facts = {
    ...{ model: modelShape(config.model), isOnGpu, dtype: isOnGpu ? ("bfloat16" as const) : ("float32" as const) },
    needsReference: recipe.needs.includes("referenceLogprobs_BT"),
    ...{ hasCritic: recipe.hasCritic, isEngineLent: hasLentEngines(config, isOnGpu), roles: roleShapes(config) },
  };
  const [planned] = deviceMemory(config, facts, placeRun(config));
  // The allocator knows of a device once something was on it.
  if (isOnGpu) zeros([1], { device: "cuda" }).dispose();
  if (isOnGpu) resetCudaPeak(0);
  let workers: readonly WorkerFacts[] = [];
  let seconds: Record<string, number> = {};
  const steps: Record<string, number>[] = [];
  await trainRun(config, {
    folder: root,
    signal: new AbortController().signal,
    clock: () => performance.now(),
    isResumed: false,
    tracker: {
      ...silentTracker,
      setWorkers: (given) => {
        workers = given;
      },
      span: async (stage, work) => {
        const start = performance.now();
        const done = await work();
        seconds[stage] = (seconds[stage] ?? 0) + (performance.now() - start) / 1000;
        return done;
      },
      log: (_, kind, metrics) => {
        if (kind !== "train") return;
        steps.push({
          ...seconds,
          tokens: metrics["experience/tokens"] ?? 0,
          replies: metrics["experience/loss_tokens"] ?? 0,
        });
        seconds = {};
      },
    },
  });
  rmSync(root, { recursive: true, force: true });
  const counted = steps.slice(1);
  const mean = (stage: string) => counted.reduce((sum, one) => sum + (one[stage] ?? 0), 0) / counted.length;
  const trajectories = groups * groupSize;
  const replyTokens = mean("replies") / trajectories;
  const expected = { replyTokens, promptTokens: mean("tokens") / trajectories - replyTokens };
  return {
    planned: { bytes: peakBytes(planned!.parts, config.loop.type === "sync"), roles: byRole(planned!.parts) },
    workers: workers.map((worker) => ({ ...worker, planned: plannedFor(worker, planned!.parts) })),
    seconds: { rollout: mean("rollout"), train: mean("train"), sync: mean("sync") },
    predicted: stepSecondsOf(config, facts, expected, 1),
    expected,
    wholeSeconds: (performance.now() - startedMs) / 1000,
  };
}

/** What the plan says of the roles of one worker, if it is alone in its process. */
function plannedFor({ roles }: WorkerFacts, parts: readonly MemoryPart[]): number {
  return peakBytes(
    parts.filter(({ owner }) => roles.some(({ role }) => role === owner)),
    true,
  );
}

function byRole(parts: readonly MemoryPart[]): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { owner, bytes } of parts) sums[owner] = (sums[owner] ?? 0) + bytes;
  return sums;
}

/** The model itself with a head that was drawn, as a reward model. */
function writeJudge(folder: string): string {
  cpSync(model, folder, { recursive: true });
  const { width } = modelShape({ path: model, preset: null });
  const generator = new Generator(5);
  saveValueHead(new ValueHead(width, { initial: { std: 0.02, generator } }), folder);
  if (!existsSync(join(folder, "config.json"))) throw new Error(`${readdirSync(folder)} is no model.`);
  return folder;
}
