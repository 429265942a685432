/**
 * Reinforcement learning of a real language model on one GPU, from run config to trained weights: reward, agreement of sampler
 * and trainer, end-to-end speed, and where the time goes; beside a loop of Hugging Face transformers in the same run.
 *
 * Usage: language-model --model <folder> [--hf hf_grpo_loop.py] [--steps 60] [--out file]. Tokens are those of replies.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Metrics } from "../../src/flow/metrics.ts";
import type { Turn } from "../../src/flow/trajectory.ts";
import type { Rollout } from "../../src/rollout/rollout-report.ts";
import { runConfig } from "../../src/run/run-config.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { cudaDeviceCount, cudaProperties } from "../../src/torch/cuda.ts";
import { type RunTracker, silentTracker } from "../../src/tracking/run-tracker.ts";
import type { LoopStage } from "../../src/tracking/span-recorder.ts";
import { describeMachine } from "../report.ts";
import { wordRows } from "./word-task.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    hf: { type: "string" },
    out: { type: "string" },
    steps: { type: "string", default: "60" },
    "hf-steps": { type: "string", default: "8" },
    groups: { type: "string", default: "32" },
    "group-size": { type: "string", default: "16" },
    "max-tokens": { type: "string", default: "128" },
    lr: { type: "string", default: "1e-5" },
    loop: { type: "string", default: "sync" },
    penalty: { type: "string", default: "0.5" },
  },
});
if (values.model === undefined) throw new Error("--model is missing: the folder of a chat model.");
/** Steps in which graphs are recorded and allocators grow; they count in no speed. */
const WARM_STEPS = 2;
const task = {
  model: values.model,
  groups: Number(values.groups),
  groupSize: Number(values["group-size"]),
  maxTokens: Number(values["max-tokens"]),
  lr: Number(values.lr),
};
/** Replies are to end by themselves in the first half of the room. Without a penalty they soon take all of it. */
const lengthLimit = { maxTokens: task.maxTokens, bufferTokens: task.maxTokens / 2, penalty: Number(values.penalty) };
const rows = wordRows("training", task.groups * Number(values.steps), 1);
const clock = () => performance.now();

const ours = await measureOurs();
report(null);
if (values.hf !== undefined) report(measureHuggingFace(values.hf));

/** Written before the other side runs, and again after it: that one may take longer than there is time. */
function report(theirs: Theirs | null): void {
  const result = {
    name: "gpu-language-model",
    date: new Date().toISOString(),
    machine: describeMachine(),
    device: cudaDeviceCount() > 0 ? cudaProperties() : "cpu",
    task: { ...task, lengthLimit, model: task.model.split("/").at(-1), loop: values.loop, example: rows[0] },
    ours,
    huggingFace: theirs,
    sameSteps: theirs === null ? null : compareSteps(ours.curve, theirs),
  };
  if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
  console.log(JSON.stringify({ ...result, ours: { ...ours, curve: undefined } }));
}

interface StepRecord {
  readonly step: number;
  readonly reward: number;
  /** Share of replies with all three words that end in time. */
  readonly solved: number;
  readonly tokens: number;
  readonly endedMs: number;
  readonly phases: RolloutPhases;
  readonly metrics: Metrics;
}

/** From the start of a rollout's first episode, in ms: the last prompt was asked, the last reply came, the last episode was over. */
interface RolloutPhases {
  readonly asked: number;
  readonly replied: number;
  readonly ended: number;
}

async function measureOurs() {
  const config = runConfig.parse({
    name: "language-model",
    model: { path: task.model },
    data: { type: "rows", rows, shuffle: false, name: "words" },
    rewards: {
      default: {
        type: "combine",
        mode: "weighted",
        parts: [
          { reward: { type: "contains", partial: true } },
          { reward: { type: "length", curve: { shape: "overlong", ...lengthLimit } } },
        ],
      },
    },
    rollout: {
      groupsPerStep: task.groups,
      groupSize: task.groupSize,
      maxInFlight: task.groups * task.groupSize,
      contextLength: 256,
      sampling: { maxTokens: task.maxTokens },
    },
    engine: { maxRunning: task.groups * task.groupSize },
    algorithm: { type: "grpo" },
    training: { optimizer: { lr: task.lr }, maxTokensPerMicrobatch: 131_072 },
    validation: {
      prompts: 256,
      temperature: 1,
      data: { type: "rows", rows: wordRows("validation", 256, 2), name: "other-words" },
    },
    loop: { type: values.loop, steps: Number(values.steps) },
  });
  const steps: StepRecord[] = [];
  const validations: Metrics[] = [];
  const spent: { stage: LoopStage; ms: number; step: number }[] = [];
  let solved = 0;
  let example = "";
  let phases: RolloutPhases = { asked: 0, replied: 0, ended: 0 };
  const tracker: RunTracker = {
    ...silentTracker,
    note: (text) => console.error(text),
    span: async (stage, work) => {
      const startMs = clock();
      const result = await work();
      spent.push({ stage, ms: clock() - startMs, step: steps.length + 1 });
      return result;
    },
    recordRollout: (_step, _kind, rollout) => {
      solved = solvedShare(rollout);
      phases = phasesOf(rollout);
      example = rollout.groups[0]!.trajectories[0]!.turns[0]!.replyText;
    },
    log: (step, kind, metrics) => {
      if (kind === "validation") validations.push(metrics);
      if (kind !== "train") return;
      const { "reward/mean": reward = 0, "experience/loss_tokens": tokens = 0 } = metrics;
      steps.push({ step, reward, solved, tokens, endedMs: clock(), phases, metrics });
      console.error(`step ${step}: reward ${reward.toFixed(3)}, solved ${solved.toFixed(3)}, ${tokens} tokens`);
    },
  };
  const folder = mkdtempSync(join(tmpdir(), "language-model-"));
  const signal = new AbortController().signal;
  const startedMs = clock();
  await trainRun(config, { folder, tracker, signal, clock, isResumed: false });
  rmSync(folder, { recursive: true });
  return {
    wholeRunSeconds: (clock() - startedMs) / 1000,
    validation: validations.map((metrics) => metrics["validation/reward/mean"]),
    ...speedOf(steps),
    rise: riseOf(steps),
    millisecondsPerStep: splitOf(
      spent.filter(({ step }) => step > WARM_STEPS),
      steps.length - WARM_STEPS,
    ),
    samplerGap: range(steps.map(({ metrics }) => metrics["train/sampler_gap"] ?? Number.NaN)),
    samplerGapMax: Math.max(...steps.map(({ metrics }) => metrics["train/sampler_gap_max"] ?? Number.NaN)),
    lastReply: example,
    curve: steps.map(({ step, reward, solved: share, tokens, endedMs, phases: rolloutPhases, metrics }) => ({
      step,
      reward,
      solved: share,
      tokens,
      seconds: (endedMs - (steps[step - 2]?.endedMs ?? startedMs)) / 1000,
      milliseconds: splitOf(
        spent.filter((one) => one.step === step),
        1,
      ),
      rolloutPhases,
      samplerGap: metrics["train/sampler_gap"],
      gradNorm: metrics["train/grad_norm"],
    })),
  };
}

function solvedShare({ groups }: Pick<Rollout, "groups">): number {
  const rewards = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward.total));
  return rewards.filter((reward) => reward === 1).length / rewards.length;
}

function phasesOf({ groups }: Pick<Rollout, "groups">): RolloutPhases {
  const episodes = groups.flatMap(({ trajectories }) => trajectories);
  const begin = Math.min(...episodes.map(({ timings }) => timings.startedMs));
  const last = (at: (turn: Turn) => number) =>
    Math.max(...episodes.flatMap(({ turns, timings }) => turns.map((turn) => timings.startedMs + at(turn)))) - begin;
  return {
    asked: last(({ startedMs }) => startedMs),
    replied: last(({ startedMs, generateMs }) => startedMs + generateMs),
    ended: Math.max(...episodes.map(({ timings }) => timings.startedMs + timings.totalMs)) - begin,
  };
}

/** From the end of the last warm step to the end of the last step. */
function speedOf(steps: readonly StepRecord[]) {
  const seconds = (steps.at(-1)!.endedMs - steps[WARM_STEPS - 1]!.endedMs) / 1000;
  const tokens = steps.slice(WARM_STEPS).reduce((sum, step) => sum + step.tokens, 0);
  return { steps: steps.length, tokens, seconds, tokensPerSecond: Math.round(tokens / seconds) };
}

/** The first step beside the last tenth of the steps. */
function riseOf(steps: readonly StepRecord[]) {
  const last = steps.slice(-Math.max(1, Math.floor(steps.length / 10)));
  return {
    reward: [steps[0]!.reward, mean(last.map(({ reward }) => reward))],
    solved: [steps[0]!.solved, mean(last.map(({ solved }) => solved))],
  };
}

/** Both loops over the steps that both made: replies get shorter with training, and so does the time for a step. */
function compareSteps(curve: readonly { step: number; tokens: number; seconds: number }[], theirs: Theirs) {
  const own = curve.filter(({ step }) => step > WARM_STEPS && step <= theirs.steps);
  const tokens = own.reduce((sum, step) => sum + step.tokens, 0);
  const seconds = own.reduce((sum, step) => sum + step.seconds, 0);
  return {
    steps: `${WARM_STEPS + 1} to ${theirs.steps}`,
    ours: { tokens, seconds, tokensPerSecond: Math.round(tokens / seconds) },
    huggingFace: { tokens: theirs.tokens, seconds: theirs.seconds, tokensPerSecond: theirs.tokensPerSecond },
    tokensPerSecondRatio: tokens / seconds / theirs.tokensPerSecond,
    stepTimeRatio: theirs.seconds / seconds,
  };
}

function splitOf(spent: readonly { stage: LoopStage; ms: number }[], numSteps: number) {
  const of = (stage: LoopStage) =>
    spent.filter((one) => one.stage === stage).reduce((sum, { ms }) => sum + ms, 0) / numSteps;
  return { rollout: of("rollout"), train: of("train"), sync: of("sync") };
}

interface Theirs {
  readonly steps: number;
  readonly tokens: number;
  readonly seconds: number;
  readonly tokensPerSecond: number;
}

function measureHuggingFace(script: string): Theirs {
  const numSteps = Number(values["hf-steps"]);
  const job = {
    ...task,
    lengthLimit,
    rows: rows.slice(0, task.groups * numSteps),
    steps: numSteps,
    warmSteps: WARM_STEPS,
  };
  const output = execFileSync("python3", [script], {
    input: JSON.stringify(job),
    encoding: "utf8",
    stdio: ["pipe", "pipe", "inherit"],
    timeout: 180_000,
  });
  return JSON.parse(output.trim().split("\n").at(-1) ?? "{}");
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
}

function range(numbers: readonly number[]) {
  return { mean: mean(numbers), least: Math.min(...numbers), most: Math.max(...numbers) };
}
