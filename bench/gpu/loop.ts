/**
 * A GRPO step of a real language model on one GPU: in turns and asynchronous, with rewards that come at once and with some that are waited for.
 *
 * 64 prompts x 16 replies of up to 320 tokens, as a run file would say it; the reward is the share of asked words in a reply. Prints for each case the
 * seconds from the start of the run to the first sample and to the end of the first step, the median of the steps after the second, and where
 * the time of those goes. A judge of 3,000 ms takes 1.5 to 4.5 seconds, by the length of the reply.
 *
 * Usage: sh run.sh loop --model <folder> [--steps 8] [--waits 0,3000] [--loops sync,async] [--max-tokens 320] [--pass-tokens 65536] [--out file].
 * Without a GPU: a few short replies.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { cudaDeviceCount, cudaProperties } from "../../src/torch/cuda.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";
import { describeMachine } from "../report.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    steps: { type: "string", default: "" },
    waits: { type: "string", default: "" },
    loops: { type: "string", default: "sync,async" },
    "max-tokens": { type: "string", default: "320" },
    "pass-tokens": { type: "string", default: "65536" },
    out: { type: "string" },
  },
});
if (values.model === undefined) throw new Error("--model is missing: the folder of a chat model.");
/** Steps in which kernels are compiled, allocators grow and an asynchronous loop fills up. */
const WARM_STEPS = 2;
const isOnGpu = cudaDeviceCount() > 0;
const [groupsPerStep, groupSize, maxTokens] = isOnGpu ? [64, 16, Number(values["max-tokens"])] : [2, 2, 8];
const steps = Number(values.steps || (isOnGpu ? 8 : 3));
const waits = (values.waits || (isOnGpu ? "0,3000" : "0")).split(",").map(Number);
const clock = () => performance.now();

const cases: Awaited<ReturnType<typeof measure>>[] = [];
for (const waitMs of waits) {
  for (const loop of values.loops.split(",")) {
    const measured = await measure(loop, waitMs);
    cases.push(measured);
    console.log(JSON.stringify({ ...measured, steps: undefined }));
  }
}
if (values.out !== undefined) {
  const device = isOnGpu ? cudaProperties() : "cpu";
  const passTokens = Number(values["pass-tokens"]);
  const task = { groupsPerStep, groupSize, maxTokens, passTokens, model: values.model.split("/").at(-1) };
  const result = { name: "gpu-loop", date: new Date().toISOString(), machine: describeMachine(), device, task, cases };
  writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
}
process.exit(0);

async function measure(loop: string, waitMs: number) {
  const { config } = resolveRun({
    seed: 1,
    model: { path: values.model! },
    data: { type: "rows", rows: wordRows("training", groupsPerStep * steps, 1), shuffle: false, name: "words" },
    rewards: { default: { type: "custom", name: "judge", cost: "cpu", score: judge(waitMs) } },
    rollout: {
      ...{ groupsPerStep, groupSize, contextLength: maxTokens + 64, sampling: { maxTokens } },
      // Those that wait for their reward count as well.
      maxInFlight: groupsPerStep * groupSize * (waitMs > 0 ? 3 : 1),
    },
    engine: { maxRunning: groupsPerStep * groupSize },
    algorithm: { type: "grpo" },
    // Four times the usual: a pass over 16,384 tokens of so small a model takes the host as long as the GPU.
    training: { optimizer: { lr: 1e-6 }, maxTokensPerMicrobatch: Number(values["pass-tokens"]) },
    loop: { type: loop, steps, ...(loop === "async" && waitMs > 0 && { maxStaleness: 2 }) },
    checkpoint: { every: 0, minutes: null },
  });
  const folder = mkdtempSync(join(tmpdir(), "loop-"));
  const startedMs = clock();
  let firstSampleMs = Number.NaN;
  let spent: Record<string, number> = {};
  let lastMs = startedMs;
  const done: { readonly seconds: number; readonly tokens: number; readonly stages: Record<string, number> }[] = [];
  const staleness: number[] = [];
  let isDone = () => {};
  const lastStep = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  const run = trainRun(config, {
    folder,
    clock,
    signal: new AbortController().signal,
    isResumed: false,
    tracker: {
      ...silentTracker,
      note: (text) => console.error(text),
      sampleEvent: () => {
        if (Number.isNaN(firstSampleMs)) firstSampleMs = clock();
      },
      span: async (stage, work) => {
        const fromMs = clock();
        const result = await work();
        spent[stage] = (spent[stage] ?? 0) + (clock() - fromMs) / 1000;
        return result;
      },
      log: (step, kind, metrics) => {
        if (kind !== "train") return;
        done.push({
          seconds: (clock() - lastMs) / 1000,
          tokens: metrics["experience/loss_tokens"] ?? 0,
          stages: spent,
        });
        staleness.push(metrics["train/staleness"] ?? 0);
        console.error(`${loop}, ${waitMs} ms, step ${step}: ${done.at(-1)!.seconds.toFixed(2)} s`);
        lastMs = clock();
        spent = {};
        if (step === steps) setImmediate(isDone);
      },
    },
  });
  // What asynchronous loops sample beyond the last step, and the files of the end, are not part of the work.
  await Promise.race([run, lastStep]);
  const workMs = lastMs;
  await run;
  rmSync(folder, { recursive: true, force: true });
  const counted = done.slice(WARM_STEPS);
  const seconds = median(counted.map((step) => step.seconds));
  const stage = (name: string) => median(counted.map(({ stages }) => stages[name] ?? 0));
  return {
    loop,
    waitMs,
    startSeconds: (firstSampleMs - startedMs) / 1000,
    firstStepSeconds: done[0]!.seconds,
    stepSeconds: seconds,
    tokensPerSecond: Math.round(median(counted.map((step) => step.tokens / step.seconds))),
    meanStepSeconds: counted.reduce((sum, step) => sum + step.seconds, 0) / counted.length,
    stages: { rollout: stage("rollout"), train: stage("train"), sync: stage("sync") },
    staleness: staleness.reduce((sum, value) => sum + value, 0) / staleness.length,
    wholeSeconds: (workMs - startedMs) / 1000,
    steps: done,
  };
}

function judge(waitMs: number) {
  return async ({ reply, prompt }: { readonly reply: string; readonly prompt: { readonly truth?: unknown } }) => {
    if (waitMs > 0) await setTimeout(waitMs * (0.5 + (reply.length % 100) / 100));
    const words = Array.isArray(prompt.truth) ? prompt.truth : [];
    return { value: words.filter((word) => reply.includes(String(word))).length / Math.max(1, words.length) };
  };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
