/**
 * Environments: steps per second of one core with 1,000 episodes at once, here and in threads, and episodes made per second.
 *
 * node --import tsx bench/environments.ts [rounds] [threads] [type ...] [{"type": ..., "dataFolder": ...} ...]
 * Every built-in environment with its defaults, and Sokoban with two boxes. Replies are drawn at random beforehand and are
 * the same everywhere. One that needs data is left out, with the reason, unless it is given as JSON with its options.
 */
import { setMaxListeners } from "node:events";
import { buildEnv, catalogModule, type EnvChoice, envCatalog } from "../src/envs/catalog.ts";
import { playEpisode, randomAgent } from "../src/envs/play-episode.ts";
import { runInThreads } from "../src/envs/run-in-threads.ts";
import { sokobanVariants } from "../src/envs/sokoban/sokoban.ts";
import type { EnvFactory, TextEnv } from "../src/envs/text-env.ts";
import type { Prompt } from "../src/flow/prompt.ts";
import { printTable, writeResult } from "./report.ts";
import { type Sample, type Timing, takeTurns } from "./take-turns.ts";

const numEpisodes = 1000;
const [rounds = "5", threads = "2", ...given] = process.argv.slice(2);
const types = given.filter((one) => !one.startsWith("{"));
const added: EnvChoice[] = given.filter((one) => one.startsWith("{")).map((one) => JSON.parse(one));
const never = new AbortController().signal;
// One signal for all episodes: every step that waits listens to it.
setMaxListeners(0, never);

const builtIn: EnvChoice[] = [
  ...envCatalog.map(({ type }) => ({ type })),
  ...[sokobanVariants.larger, sokobanVariants["larger-paper"]].map((options) => ({ type: "sokoban", ...options })),
];
const choices = [...builtIn.filter(({ type }) => types.length === 0 || types.includes(type)), ...added];

const results: Result[] = [];
const leftOut: { readonly env: string; readonly reason: string }[] = [];
for (const choice of choices) {
  try {
    results.push(await measureEnv(choice));
  } catch (error) {
    leftOut.push({ env: nameOf(choice), reason: error instanceof Error ? error.message : String(error) });
  }
}
report();

/** An episode to be played again: what it starts from, and all replies. */
interface Game {
  readonly prompt: Prompt;
  readonly seed: number;
  readonly replies: readonly string[];
}

interface Result {
  readonly env: string;
  readonly numSteps: number;
  /** Episodes made and started per second of processor time. */
  readonly episodesPerCpuSecond: number;
  readonly stepsPerCpuSecond: number;
  readonly threadStepsPerCpuSecond: number;
  /** Of all threads together. */
  readonly threadStepsPerSecond: number;
  readonly timings: Readonly<Record<"make" | "here" | "threads", Timing>>;
}

async function measureEnv(choice: EnvChoice): Promise<Result> {
  const here = buildEnv(choice);
  const there = runInThreads({
    module: catalogModule,
    exportName: "buildEnv",
    options: choice,
    numThreads: Number(threads),
    name: choice.type,
  });
  try {
    const games = await recordGames(here);
    const numSteps = games.reduce((sum, { replies }) => sum + replies.length, 0);
    const timings = await takeTurns(
      {
        make: async () => [await measureAsync(() => startAll(here, games))],
        here: () => stepAll(here, games, stepInTurns),
        threads: () => stepAll(there, games, stepAtOnce),
      },
      Number(rounds),
    );
    const perSecond = (count: number, medianMs: number) => (1000 * count) / medianMs;
    return {
      env: nameOf(choice),
      numSteps,
      episodesPerCpuSecond: perSecond(numEpisodes, timings.make.cpu.median),
      stepsPerCpuSecond: perSecond(numSteps, timings.here.cpu.median),
      threadStepsPerCpuSecond: perSecond(numSteps, timings.threads.cpu.median),
      threadStepsPerSecond: perSecond(numSteps, timings.threads.wall.median),
      timings,
    };
  } finally {
    await there.close();
    await here.close?.();
  }
}

async function recordGames({ makeEnv, makePrompt }: EnvFactory): Promise<Game[]> {
  if (makePrompt === undefined) throw new Error("it makes no prompts of its own");
  const games: Game[] = [];
  for (let seed = 0; seed < numEpisodes; seed++) {
    const prompt = makePrompt(seed);
    const { turns } = await playEpisode(await makeEnv(prompt, seed), randomAgent(seed));
    games.push({ prompt, seed, replies: turns.map(({ reply }) => reply) });
  }
  return games;
}

async function startAll({ makeEnv }: EnvFactory, games: readonly Game[]): Promise<TextEnv[]> {
  return Promise.all(
    games.map(async ({ prompt, seed }) => {
      const env = await makeEnv(prompt, seed);
      await env.start(never);
      return env;
    }),
  );
}

type StepAll = (envs: readonly TextEnv[], games: readonly Game[]) => Promise<void>;

async function stepAll(factory: EnvFactory, games: readonly Game[], step: StepAll): Promise<Sample[]> {
  const envs = await startAll(factory, games);
  const sample = await measureAsync(() => step(envs, games));
  await Promise.all(envs.map((env) => env.end?.()));
  return [sample];
}

/** All environments one step, then all of them the next. Only what is a promise is awaited. */
async function stepInTurns(envs: readonly TextEnv[], games: readonly Game[]): Promise<void> {
  const numTurns = Math.max(...games.map(({ replies }) => replies.length));
  for (let turn = 0; turn < numTurns; turn++) {
    const waiting: Promise<unknown>[] = [];
    for (const [i, env] of envs.entries()) {
      const text = games[i]!.replies[turn];
      const step = text === undefined ? null : env.step({ text, isCut: false }, never);
      if (step instanceof Promise) waiting.push(step);
    }
    await Promise.all(waiting);
  }
}

/** Every environment goes on as soon as it has its answer. */
async function stepAtOnce(envs: readonly TextEnv[], games: readonly Game[]): Promise<void> {
  const play = async (env: TextEnv, { replies }: Game) => {
    for (const text of replies) await env.step({ text, isCut: false }, never);
  };
  await Promise.all(envs.map((env, i) => play(env, games[i]!)));
}

async function measureAsync(body: () => Promise<unknown>): Promise<Sample> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await body();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1000 };
}

function nameOf({ type, ...options }: EnvChoice): string {
  const isPath = (value: unknown) => typeof value === "string" && value.includes("/");
  const parts = Object.entries(options).flatMap(([name, value]) => (isPath(value) ? [] : [`${name} ${String(value)}`]));
  return [type, ...parts].join(", ");
}

function report(): void {
  printTable(
    `${numEpisodes} episodes at once, random replies, per second`,
    ["environment", "steps per core", "episodes made per core", `steps in ${threads} threads`, "the same per core"],
    results.map((result) => [
      result.env,
      result.stepsPerCpuSecond.toFixed(0),
      result.episodesPerCpuSecond.toFixed(0),
      result.threadStepsPerSecond.toFixed(0),
      result.threadStepsPerCpuSecond.toFixed(0),
    ]),
  );
  for (const { env, reason } of leftOut) console.log(`left out: ${env}: ${reason}`);
  writeResult("environments", {
    settings: { numEpisodes, rounds: Number(rounds), threads: Number(threads) },
    results,
    leftOut,
  });
}
