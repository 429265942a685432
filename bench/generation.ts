/**
 * Generation on the CPU: tokens per second of the engine beside Python's torch with a static cache, the lag of the
 * owner's event loop, and a long tail of lengths.
 *
 * node --import tsx bench/generation.ts [rounds] [threads] [preset ...]
 * Both sides draw greedily from the same weights and report log-probabilities, which must be equal, and so must tokens up to a tie. Bar of the
 * long tail: 1.3 times the time that its tokens take at the speed of a full batch.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Generate, Generation } from "../src/generation/generate.ts";
import { LocalEngine } from "../src/generation/local/local-engine.ts";
import { startThreadedEngine } from "../src/generation/local/threaded-engine.ts";
import { uniformAt } from "../src/generation/local/uniform.ts";
import type { CausalLm } from "../src/models/causal-lm/causal-lm.ts";
import { createPreset, type PresetName } from "../src/models/causal-lm/presets.ts";
import { saveCausalLm } from "../src/models/causal-lm/save-causal-lm.ts";
import { native } from "../src/torch/binding.ts";
import { PythonChild } from "./python-child.ts";
import { printTable, verdict, writeResult } from "./report.ts";
import type { Summary } from "./statistics.ts";
import { type Sample, type Timing, takeTurns } from "./take-turns.ts";

const vocabSize = 512;
const promptLength = 32;
const replyLength = 64;
const contextLength = 512;
const batches = [1, 16, 128];
const tailBar = 1.3;
const lagPeriodMs = 5;

const [rounds = "5", threads = "1", ...chosen] = process.argv.slice(2);
const presets = chosen.length > 0 ? (chosen as PresetName[]) : (["nano", "micro", "mini"] as const);
native.setNumThreads(Number(threads));

await warmUp();
const speed: Speed[] = [];
for (const preset of presets) speed.push(...(await compareSpeed(preset)));
const lag = await measureLag("micro");
const longTail = await measureLongTail("micro");
report();

/** Until V8 has compiled what a step runs: a few hundred steps. */
async function warmUp(): Promise<void> {
  const model = createPreset("nano", vocabSize, 1);
  const engine = new LocalEngine(model, { contextLength });
  for (let round = 0; round < 10; round++) await generateAll(engine.generate, [promptOf(0), promptOf(1)]);
  await engine.close();
  model.dispose();
}

interface Speed {
  readonly preset: PresetName;
  readonly batch: number;
  readonly timings: Readonly<Record<"reroll" | "python", Timing>>;
  readonly tokensPerSecond: number;
  readonly pythonTokensPerSecond: number;
  /** Of median wall times, and of median processor times: above 1 the engine is faster. */
  readonly ratio: number;
  readonly ratioOfCpu: number;
}

async function compareSpeed(preset: PresetName): Promise<Speed[]> {
  const model = createPreset(preset, vocabSize, 1);
  const child = new PythonChild("generation.py", "passive");
  await withSaved(model, (folder) =>
    child.request("start", { folder, length: promptLength + replyLength, threads: Number(threads) }),
  );
  const results: Speed[] = [];
  for (const batch of batches) {
    const engine = new LocalEngine(model, { contextLength, maxRunning: batch, maxStepTokens: 4096 });
    const prompts = Array.from({ length: batch }, (_, row) => promptOf(row));
    const ours = await generateAll(engine.generate, prompts);
    const theirs = await child.request<PythonReply>("generate", { prompts, count: replyLength });
    expectEqual(ours, theirs);
    const timings = await takeTurns(
      {
        // Blocks of the last round would be found again: new weights, the same ones, make every round pay for its prompts.
        reroll: async () => {
          engine.updateWeights(0, () => {});
          return [await measureAsync(() => generateAll(engine.generate, prompts))];
        },
        python: async () => [await child.request<PythonReply>("generate", { prompts, count: replyLength })],
      },
      Number(rounds),
    );
    results.push(speedOf(preset, batch, timings));
    await engine.close();
  }
  await child.stop();
  model.dispose();
  return results;
}

interface PythonReply extends Sample {
  readonly tokens: readonly (readonly number[])[];
  readonly logprobs: readonly (readonly number[])[];
}

function generateAll(generate: Generate, prompts: readonly number[][]): Promise<Generation[]> {
  const sampling = { maxTokens: replyLength, temperature: 0 };
  return Promise.all(prompts.map((promptIds) => generate({ promptIds, sampling })));
}

/** The two sides compute the same thing, or there is nothing to compare. A row may go its own way from where two tokens are equally likely. */
function expectEqual(ours: readonly Generation[], { tokens, logprobs }: PythonReply): void {
  for (const [row, { tokenIds, modelLogprobs }] of ours.entries()) {
    const parting = tokenIds.findIndex((token, i) => token !== tokens[row]![i]);
    const shared = parting === -1 ? tokenIds.length : parting + 1;
    const gap = Math.max(...modelLogprobs.slice(0, shared).map((value, i) => Math.abs(value - logprobs[row]![i]!)));
    if (gap < 1e-4) continue;
    throw new Error(`Row ${row} differs: reroll ${tokenIds}, Python ${tokens[row]}, log-probs by ${gap}.`);
  }
}

function speedOf(preset: PresetName, batch: number, timings: Speed["timings"]): Speed {
  const { reroll, python } = timings;
  const tokensPerSecond = ({ wall }: Timing) => (batch * replyLength * 1000) / wall.median;
  return {
    preset,
    batch,
    timings,
    tokensPerSecond: tokensPerSecond(reroll),
    pythonTokensPerSecond: tokensPerSecond(python),
    ratio: python.wall.median / reroll.wall.median,
    ratioOfCpu: python.cpu.median / reroll.cpu.median,
  };
}

interface Lag {
  readonly what: string;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  readonly tokensPerSecond: number;
}

/** How late a timer of the owner comes while 64 replies are streamed to it. */
async function measureLag(preset: PresetName): Promise<Lag[]> {
  const model = createPreset(preset, vocabSize, 1);
  const local = new LocalEngine(model, { contextLength });
  const threaded = await withSaved(model, (folder) =>
    startThreadedEngine({ folder, options: { contextLength }, numThreads: Number(threads) }),
  );
  const results = [
    await lagDuring("nothing else", async () => {
      await sleep(2_000);
      return 0;
    }),
    await lagDuring("engine in its own thread", () => stream(threaded.generate)),
    await lagDuring("engine in the same thread", () => stream(local.generate)),
  ];
  await threaded.close();
  await local.close();
  model.dispose();
  return results;
}

/** Streams replies for a while and returns how many tokens came. */
async function stream(generate: Generate): Promise<number> {
  let numTokens = 0;
  const replies = Array.from({ length: 64 }, (_, seed) =>
    generate({
      promptIds: promptOf(seed),
      sampling: { maxTokens: 256, seed },
      onTokens: ({ tokenIds }) => {
        numTokens += tokenIds.length;
      },
    }),
  );
  await Promise.all(replies);
  return numTokens;
}

async function lagDuring(what: string, work: () => Promise<number>): Promise<Lag> {
  const lags: number[] = [];
  let last = performance.now();
  const timer = setInterval(() => {
    const now = performance.now();
    lags.push(Math.max(0, now - last - lagPeriodMs));
    last = now;
  }, lagPeriodMs);
  const start = performance.now();
  const numTokens = await work();
  clearInterval(timer);
  const sorted = lags.toSorted((a, b) => a - b);
  const at = (fraction: number) => sorted[Math.min(sorted.length - 1, Math.floor(fraction * sorted.length))] ?? 0;
  const tokensPerSecond = (numTokens * 1000) / (performance.now() - start);
  return { what, medianMs: at(0.5), p99Ms: at(0.99), maxMs: at(1), tokensPerSecond };
}

interface LongTail {
  readonly requests: number;
  readonly tokens: number;
  readonly timings: Readonly<Record<"full" | "tail", Timing>>;
  /** To the time that the tokens of the tail take at the speed of the full batch: by wall time, and by processor time. */
  readonly ratio: number;
  readonly ratioOfCpu: number;
}

/** 128 replies of 4 to 256 tokens, as 16 to 1,024 scaled down, beside 128 of equal length. */
async function measureLongTail(preset: PresetName): Promise<LongTail> {
  const requests = 128;
  const model = createPreset(preset, vocabSize, 1);
  const engine = new LocalEngine(model, { contextLength, maxRunning: requests });
  const run = (lengths: readonly number[]) => async () => [
    await measureAsync(() =>
      Promise.all(
        lengths.map((maxTokens, i) => engine.generate({ promptIds: promptOf(i), sampling: { maxTokens, seed: i } })),
      ),
    ),
  ];
  const lengths = Array.from({ length: requests }, (_, i) => 4 + Math.floor(uniformAt(7, i) * 253));
  const equal = new Array<number>(requests).fill(128);
  const timings = await takeTurns({ full: run(equal), tail: run(lengths) }, Math.min(3, Number(rounds)));
  await engine.close();
  model.dispose();
  const tokens = lengths.reduce((sum, length) => sum + length, 0);
  const ratioBy = (quantity: (timing: Timing) => Summary) =>
    quantity(timings.tail).median / (quantity(timings.full).median * (tokens / (requests * 128)));
  return {
    requests,
    tokens,
    timings,
    ratio: ratioBy(({ wall }) => wall),
    ratioOfCpu: ratioBy(({ cpu }) => cpu),
  };
}

function promptOf(row: number): number[] {
  return Array.from({ length: promptLength }, (_, i) => Math.floor(uniformAt(row, i) * vocabSize));
}

async function measureAsync(body: () => Promise<unknown>): Promise<Sample> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await body();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { wall, cpu: (user + system) / 1000 };
}

/** The model in a folder, for as long as `use` takes. */
async function withSaved<Result>(model: CausalLm, use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-bench-"));
  saveCausalLm(model, folder);
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function report(): void {
  printTable(
    `Greedy replies of ${replyLength} tokens to prompts of ${promptLength}, ${threads} threads: tokens per second`,
    ["preset, batch", "reroll", "Python", "times Python", "by cpu time"],
    speed.map(({ preset, batch, tokensPerSecond, pythonTokensPerSecond, ratio, ratioOfCpu }) => [
      `${preset}, ${batch}`,
      tokensPerSecond.toFixed(0),
      pythonTokensPerSecond.toFixed(0),
      ratio.toFixed(2),
      ratioOfCpu.toFixed(2),
    ]),
  );
  printTable(
    "Lag of the owner's event loop while 64 replies are streamed, ms",
    ["beside", "median", "p99", "max", "tokens per second"],
    lag.map(({ what, medianMs, p99Ms, maxMs, tokensPerSecond }) => [
      what,
      ...[medianMs, p99Ms, maxMs].map((value) => value.toFixed(1)),
      tokensPerSecond.toFixed(0),
    ]),
  );
  const { requests, tokens, ratio, ratioOfCpu } = longTail;
  console.log(
    `\n${requests} replies with a long tail of lengths, ${tokens} tokens: ${ratio.toFixed(2)} of the time at full batch ` +
      `speed, ${verdict(ratio, tailBar)}; ${ratioOfCpu.toFixed(2)} by processor time.`,
  );
  const settings = { vocabSize, promptLength, replyLength, threads: Number(threads), lagPeriodMs, tailBar };
  writeResult("generation", { settings, speed, lag, longTail });
}
