/**
 * Rollout: what the scheduler itself costs, what it gains on a long tail of reply lengths, and what dynamic sampling costs.
 *
 * node --import tsx bench/rollout.ts [rounds]
 * No model takes part. The engine is the scripted one: one token per running request and step, 64 requests at a time; time is
 * counted in its steps, so the second and third table are the same on every machine.
 */

import { ChatFormat } from "../src/chat/conversation.ts";
import { loadTokenizer } from "../src/chat/tokenizer/load-tokenizer.ts";
import { questionAnswer } from "../src/envs/question-answer/question-answer.ts";
import type { Prompt } from "../src/flow/prompt.ts";
import { deriveSeed, Random } from "../src/random/random.ts";
import { type Admission, admitByStaleness, admitWanted } from "../src/rollout/admission.ts";
import { createEpisodeRunner, defaultEpisodeLimits, type RunEpisode } from "../src/rollout/episode.ts";
import { dropEqualRewards } from "../src/rollout/group-filter.ts";
import { RolloutScheduler, type SchedulerOptions } from "../src/rollout/rollout-scheduler.ts";
import { createScriptedEngine, type ScriptedEngine } from "../src/testing/scripted-generate.ts";
import { printTable, writeResult } from "./report.ts";
import { type Sample, takeTurns } from "./take-turns.ts";

const [rounds = "5"] = process.argv.slice(2);
const never = new AbortController().signal;
const format = new ChatFormat(await loadTokenizer("fixtures/tokenizer"));
const maxRunning = 64;

const events = await measureEvents();
const tails = await measureTails();
const filters = await measureFilters();
report();

/** 10,000 samples in flight whose episodes do nothing; they end in random order. */
async function measureEvents() {
  const numSamples = 10_000;
  const settings = {
    "1,250 groups of 8": { groupSize: 8, admission: admitWanted() },
    "10,000 groups of 1": { groupSize: 1, admission: admitWanted() },
    "10,000 groups of 1, ahead of demand": { groupSize: 1, admission: admitByStaleness(1, 10_000) },
  };
  const numEvents = new Map<string, number>();
  const turn = (name: string, setting: { readonly groupSize: number; readonly admission: Admission }) => async () => {
    let count = 0;
    const sample = await playAll(numSamples, setting, () => count++);
    numEvents.set(name, count);
    return [sample];
  };
  const timings = await takeTurns(
    Object.fromEntries(Object.entries(settings).map(([name, setting]) => [name, turn(name, setting)])),
    Number(rounds),
  );
  return Object.entries(timings).map(([name, timing]) => ({
    name,
    numSamples,
    numEvents: numEvents.get(name)!,
    cpuMicrosPerEvent: (1000 * timing.cpu.median) / numEvents.get(name)!,
    wallMicrosPerEvent: (1000 * timing.wall.median) / numEvents.get(name)!,
    timing,
  }));
}

/** Queued, environment, generating, scoring, complete and delivered are six events; ahead of demand, others are queued meanwhile. */
async function playAll(
  numSamples: number,
  { groupSize, admission }: { readonly groupSize: number; readonly admission: Admission },
  onEvent: () => void,
): Promise<Sample> {
  const endings: (() => void)[] = [];
  const runEpisode: RunEpisode = async ({ queuedMs, ...task }, { onStage }) => {
    onStage?.("environment");
    onStage?.("generating");
    await new Promise<void>((resolve) => endings.push(resolve));
    onStage?.("scoring");
    return {
      ...task,
      turns: [],
      end: { kind: "completed" },
      reward: { total: 0, score: 0, parts: {} },
      metrics: {},
      timings: { startedMs: 0, queuedMs, generateMs: 0, envMs: 0, rewardMs: 0, totalMs: 0 },
    };
  };
  const options: SchedulerOptions = { groupSize, maxInFlight: numSamples, admission, rest: "continue" };
  const scheduler = new RolloutScheduler({ ...parts(runEpisode), options, onEvent });
  const cpu = process.cpuUsage();
  const start = performance.now();
  const taking = scheduler.take(numSamples / groupSize, never);
  while (endings.length < numSamples) await new Promise((resolve) => setImmediate(resolve));
  for (const end of new Random(1).shuffled(endings.splice(0))) end();
  await taking;
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  // Those that run ahead end too, or closing would wait for them.
  for (const end of endings) end();
  await scheduler.close();
  return { wall, cpu: (user + system) / 1000 };
}

/** Batches of 16 groups of 8 with reply lengths of a Pareto tail, for 12 batches. */
async function measureTails() {
  const batchGroups = 16;
  const ways: Readonly<Record<string, Partial<SchedulerOptions>>> = {
    "batch by batch": {},
    "8 extra groups, the rest starts again": { admission: admitWanted(8) },
    "8 extra groups, the rest is held": { admission: admitWanted(8), rest: "hold" },
    "running on, staleness 1": { admission: admitByStaleness(1, batchGroups), rest: "continue" },
  };
  const results = [];
  for (const [name, options] of Object.entries(ways)) {
    const engine = longTailEngine();
    const scheduler = new RolloutScheduler({
      ...parts(episodesOf(engine)),
      options: { groupSize: 8, maxInFlight: 4 * batchGroups * 8, ...options },
    });
    let numTokens = 0;
    let numTrajectories = 0;
    for (let version = 0; version < 12; version++) {
      scheduler.setProgress(version);
      const { groups } = await scheduler.take(batchGroups, never);
      const trajectories = groups.flatMap((group) => group.trajectories);
      numTrajectories += trajectories.length;
      for (const { turns } of trajectories) numTokens += turns[0]!.reply.tokenIds.length;
    }
    const { steps, generatedTokens } = engine.status().counters;
    await scheduler.close();
    results.push({
      name,
      numTrajectories,
      steps,
      meanReplyTokens: numTokens / numTrajectories,
      usefulTokensPerStep: numTokens / steps,
      trajectoriesPerThousandSteps: (1000 * numTrajectories) / steps,
      idleShare: 1 - generatedTokens / (steps * maxRunning),
    });
  }
  return results;
}

/** Batches of 16 groups of 4 whose rewards are equal about half of the time. */
async function measureFilters() {
  const results = [];
  for (const extraGroups of [0, 8]) {
    const engine = longTailEngine();
    const scheduler = new RolloutScheduler({
      ...parts(episodesOf(engine)),
      options: { groupSize: 4, maxInFlight: 512, admission: admitWanted(extraGroups), filter: dropEqualRewards },
    });
    const sums = { asked: 0, useful: 0, filtered: 0, aborted: 0, usefulTokens: 0, leftInEngine: 0 };
    for (let version = 0; version < 12; version++) {
      scheduler.setProgress(version);
      const { groups, report: rest } = await scheduler.take(16, never);
      sums.asked += 16;
      sums.useful += groups.filter((group) => dropEqualRewards(group) === null).length;
      sums.filtered += rest.filtered.length;
      sums.aborted += rest.numAborted;
      for (const { trajectories } of groups)
        for (const { turns } of trajectories) sums.usefulTokens += turns[0]!.reply.tokenIds.length;
      const { runningRequests, queuedRequests } = engine.status();
      sums.leftInEngine += runningRequests + queuedRequests;
    }
    await scheduler.close();
    const { generatedTokens, steps } = engine.status().counters;
    results.push({ extraGroups, ...sums, generatedTokens, steps, usefulShare: sums.usefulTokens / generatedTokens });
  }
  return results;
}

/** Lengths of 30 and more with exponent 1.2, at most 3,000: of most batches one reply is far longer than all others. */
function longTailEngine(): ScriptedEngine {
  const startOf = new Map<string, number>();
  return createScriptedEngine({
    maxRunning,
    maxQueuedRequests: 10_000,
    version: 0,
    reply: ({ sessionId = "", promptIds }) => {
      const start = startOf.get(sessionId) ?? promptIds.length;
      startOf.set(sessionId, start);
      const uniform = new Random(deriveSeed(1, sessionId)).uniform();
      const length = Math.min(3000, Math.floor(30 * (1 - uniform) ** (-1 / 1.2)));
      return { tokenIds: new Int32Array(Math.max(0, length - (promptIds.length - start))).fill(97) };
    },
  });
}

/** One question and one reply, worth 1 for about one sample in seven. */
function episodesOf(engine: ScriptedEngine): RunEpisode {
  return (task, control) =>
    createEpisodeRunner({
      generate: engine.generate,
      makeEnv: questionAnswer.build({}).makeEnv,
      format,
      score: async () => ({
        ...{ kind: "scored", score: Number(new Random(task.seed).uniform() < 1 / 7), parts: {} },
        ...{ explanation: "", elapsedMs: 0 },
      }),
      sampling: { maxTokens: 3500 },
      limits: { ...defaultEpisodeLimits, contextLength: 4096 },
      clock: () => performance.now(),
    })(task, control);
}

function parts(runEpisode: RunEpisode) {
  let next = 0;
  const promptOf = (i: number): Prompt => ({
    ...{ id: `p${i}`, domain: "bench", seed: i, truth: null, extra: {} },
    messages: [{ role: "user", content: "Go." }],
  });
  const source = { next: async () => [promptOf(next++)], position: () => next, restore: async () => {} };
  return { runEpisode, sources: [{ share: 1, source }], seed: 1, clock: () => performance.now() };
}

function report(): void {
  printTable(
    "Scheduler: microseconds per event, 10,000 samples in flight",
    ["setting", "events", "processor time", "wall time"],
    events.map((one) => [
      one.name,
      String(one.numEvents),
      one.cpuMicrosPerEvent.toFixed(1),
      one.wallMicrosPerEvent.toFixed(1),
    ]),
  );
  const base = tails[0]!;
  printTable(
    "Long tail: 12 batches of 16 groups of 8, 64 requests at a time",
    ["way", "engine steps", "useful tokens per step", "speedup", "idle places", "mean reply"],
    tails.map((one) => [
      one.name,
      String(one.steps),
      one.usefulTokensPerStep.toFixed(1),
      (one.usefulTokensPerStep / base.usefulTokensPerStep).toFixed(2),
      `${(100 * one.idleShare).toFixed(0)} %`,
      one.meanReplyTokens.toFixed(0),
    ]),
  );
  printTable(
    "Dynamic sampling: 12 batches of 16 groups of 4",
    ["extra groups", "asked", "useful", "filtered", "aborted samples", "useful tokens", "left in the engine", "steps"],
    filters.map((one) => [
      String(one.extraGroups),
      String(one.asked),
      String(one.useful),
      String(one.filtered),
      String(one.aborted),
      `${(100 * one.usefulShare).toFixed(0)} %`,
      String(one.leftInEngine),
      String(one.steps),
    ]),
  );
  writeResult("rollout", { settings: { rounds: Number(rounds), maxRunning }, events, tails, filters });
}
