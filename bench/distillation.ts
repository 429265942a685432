/**
 * What teachers are worth: on-policy distillation beside reinforcement learning from the same start, a context distilled into the weights,
 * and second tries after a reflection beside the same run without them. Models of 0.1M parameters, three seeds.
 *
 * npm run bench -- distillation [distillation] [context] [reflection]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sums } from "../examples/envs/sums.ts";
import type { EnvFactory } from "../src/envs/text-env.ts";
import type { Metrics } from "../src/flow/metrics.ts";
import { prepareRun } from "../src/run/prepare-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { codeWords } from "./code-words.ts";
import { printTable, writeResult } from "./report.ts";

const SEEDS = [1, 2, 3];
const root = mkdtempSync(join(tmpdir(), "reroll-distillation-"));

/** Success on validation prompts after some trajectories, second tries among them. */
interface Point {
  readonly episodes: number;
  readonly success: number;
}

interface Trained {
  readonly folder: string;
  readonly curve: readonly Point[];
}

let numRuns = 0;

async function train(env: EnvFactory, changes: Record<string, unknown>): Promise<Trained> {
  const file = {
    device: "cpu",
    model: { preset: "nano" },
    envs: { task: { type: "custom", ...env } },
    data: { type: "env", env: "task" },
    rollout: { groupsPerStep: 16, groupSize: 8, maxInFlight: 128, contextLength: 64, sampling: { maxTokens: 4 } },
    training: { optimizer: { lr: 1e-3, betas: [0.9, 0.99] }, maxTokensPerMicrobatch: 32_768 },
    validation: {
      every: 2,
      prompts: 256,
      metric: "env/success",
      data: { type: "env", env: "task", part: "validation" },
    },
    engine: { maxRunning: 256, maxStepTokens: 8192 },
    checkpoint: { every: 0, minutes: null },
    ...changes,
  };
  const { config } = await prepareRun(file, [], {});
  const curve: Point[] = [];
  let episodes = 0;
  const log = (_step: number, kind: string, metrics: Metrics) => {
    if (kind === "train") episodes += metrics["rollout/trajectories"]! + (metrics["reflection/tries"] ?? 0);
    if (kind === "validation") curve.push({ episodes, success: metrics["validation/env/success"]! });
  };
  const { modelFolder } = await trainRun(config, {
    folder: join(root, `run-${numRuns++}`),
    tracker: { ...silentTracker, log },
    signal: new AbortController().signal,
    clock: () => performance.now(),
    isResumed: false,
  });
  return { folder: modelFolder, curve };
}

/** Supervised updates on the replies of the oracle, and no reinforcement learning. */
function imitate(env: EnvFactory, seed: number, steps: number): Promise<Trained> {
  const warmStart = { type: "play", agent: "oracle", steps, turnsPerStep: 64, optimizer: { lr: 3e-3 } };
  return train(env, { seed, warmStart, loop: { type: "sync", steps: 0 } });
}

const last = ({ curve }: Trained): number => curve.at(-1)?.success ?? 0;
const first = ({ curve }: Trained): number => curve[0]?.success ?? 0;
/** Episodes until the curve first reaches a bar; null if it never does. */
const until = ({ curve }: Trained, bar: number): number | null =>
  curve.find(({ success }) => success >= bar)?.episodes ?? null;

async function distill(seed: number) {
  const env = sums({ numDigits: 1 });
  const teacher = await imitate(env, 100 + seed, 60);
  const start = await imitate(env, seed, 6);
  const loop = { type: "sync", steps: 48 };
  const from = { seed, model: { path: start.folder }, loop };
  const rewarded = await train(env, { ...from, algorithm: { type: "grpo" } });
  const teachers = { default: { type: "folder", path: teacher.folder } };
  const taught = await train(env, { ...from, distillation: { teachers, rewards: false } });
  const whole = { teachers, rewards: false, form: "full" };
  const reverse = await train(env, { ...from, distillation: { ...whole, divergence: "reverse" } });
  const forward = await train(env, { ...from, distillation: { ...whole, divergence: "forward" } });
  const bar = 0.9 * last(teacher);
  const arm = (one: Trained) => ({ end: last(one), episodesToBar: until(one, bar), curve: one.curve });
  return {
    ...{ seed, teacher: last(teacher), start: first(taught), bar },
    ...{ reinforcement: arm(rewarded), advantage: arm(taught) },
    ...{ reverse: arm(reverse), forward: arm(forward) },
  };
}

async function distillContext(seed: number) {
  const start = await imitate(codeWords("lessons"), seed, 60);
  const from = { seed, model: { path: start.folder } };
  const measured = { ...from, loop: { type: "sync", steps: 0 } };
  const hinted = first(await train(codeWords("hinted"), measured));
  const teachers = { default: { type: "self", context: "hint {truth}" } };
  const distillation = { teachers, form: "full", divergence: "forward", rewards: false };
  const taught = await train(codeWords("plain"), { ...from, distillation, loop: { type: "sync", steps: 24 } });
  const [before, after] = [first(taught), last(taught)];
  return { seed, before, hinted, after, kept: (after - before) / (hinted - before), curve: taught.curve };
}

async function reflect(seed: number) {
  const start = await imitate(codeWords("lessons"), seed, 60);
  const rollout = { groupsPerStep: 16, groupSize: 4, maxInFlight: 128, contextLength: 64, sampling: { maxTokens: 1 } };
  const from = { seed, model: { path: start.folder }, rollout, loop: { type: "sync", steps: 20 } };
  const alone = await train(codeWords("plain"), from);
  const reflection = { prompt: "answer {truth}", context: "hint {reflection}", maxTokens: 1 };
  const reflecting = await train(codeWords("plain"), { ...from, reflection });
  const arm = (one: Trained) => ({ end: last(one), episodesToHalf: until(one, 0.5), curve: one.curve });
  return { seed, start: first(alone), without: arm(alone), with: arm(reflecting) };
}

async function perSeed<Result>(run: (seed: number) => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  for (const seed of SEEDS) {
    const result = await run(seed);
    console.log(JSON.stringify(result, (key, value: unknown) => (key === "curve" ? undefined : value)));
    results.push(result);
  }
  return results;
}

const percent = (share: number) => `${(100 * share).toFixed(0)} %`;
const count = (episodes: number | null) => (episodes === null ? "never" : String(episodes));
const wanted = process.argv.slice(2);
const isWanted = (part: string) => wanted.length === 0 || wanted.includes(part);

try {
  if (isWanted("distillation")) {
    const seeds = await perSeed(distill);
    printTable(
      "Sums of numbers below 10: episodes to 90 % of the teacher",
      [
        "seed",
        "teacher",
        "start",
        "rewards: end",
        "episodes",
        "teacher's log-probs: end",
        "episodes",
        "whole, reverse: end",
        "episodes",
        "whole, forward: end",
        "episodes",
      ],
      seeds.map(({ seed, teacher, start, reinforcement, advantage, reverse, forward }) => [
        ...[String(seed), percent(teacher), percent(start)],
        ...[reinforcement, advantage, reverse, forward].flatMap((arm) => [percent(arm.end), count(arm.episodesToBar)]),
      ]),
    );
    writeResult("distillation", { task: "sums of numbers below 10", seeds });
  }
  if (isWanted("context")) {
    const seeds = await perSeed(distillContext);
    printTable(
      "Code words: what is left of a context without it",
      ["seed", "without", "with the context", "distilled, without", "gain kept"],
      seeds.map(({ seed, before, hinted, after, kept }) => [
        String(seed),
        ...[before, hinted, after, kept].map(percent),
      ]),
    );
    writeResult("context-distillation", { task: "24 code words of 32, one answer in the context", seeds });
  }
  if (isWanted("reflection")) {
    const seeds = await perSeed(reflect);
    printTable(
      "Code words: episodes, second tries among them, to half of all answers right",
      ["seed", "start", "without: end", "episodes", "with: end", "episodes"],
      seeds.map(({ seed, start, without, with: reflecting }) => [
        ...[String(seed), percent(start)],
        ...[without, reflecting].flatMap((arm) => [percent(arm.end), count(arm.episodesToHalf)]),
      ]),
    );
    writeResult("reflection", { task: "24 code words of 32, the answer shown after a failed try", seeds });
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
