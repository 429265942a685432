/**
 * What rolling out and training at the same time saves, beside doing them in turns: wall-clock time and idle shares.
 *
 * node --import tsx bench/async.ts [repeats]
 * The same small task, once with an environment that answers at once and once with one that is waited for. All runs take turns.
 * Times are from the first sample to the last step: starting threads is left out.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { resolveRun } from "../src/run/resolve-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { SpanRecorder } from "../src/tracking/span-recorder.ts";
import { printTable, writeResult } from "./report.ts";
import { sortDigits } from "./sort-digits.ts";
import { spread, summarize } from "./statistics.ts";

const numRepeats = Number(process.argv[2] ?? 3);
const steps = 24;
const latencies = [0, 300];
const loops = {
  sync: { type: "sync", steps },
  async: { type: "async", steps, syncInterval: 1, maxStaleness: 1 },
} as const;

interface Measured {
  readonly latencyMs: number;
  readonly loop: keyof typeof loops;
  readonly seconds: number;
  /** Shares of the time in which nothing is generated, and in which no step is trained. */
  readonly engineIdle: number;
  readonly trainerIdle: number;
  readonly staleness: number;
  readonly reward: number;
}

const all: Measured[] = [];
for (let repeat = 0; repeat < numRepeats; repeat++) {
  for (const latencyMs of latencies) {
    for (const loop of ["sync", "async"] as const) {
      const measured = await measure(latencyMs, loop, repeat + 1);
      all.push(measured);
      console.log(JSON.stringify(measured));
    }
  }
}
const rows = latencies.flatMap((latencyMs) =>
  (["sync", "async"] as const).map((loop) => ({
    latencyMs,
    loop,
    own: all.filter((one) => one.latencyMs === latencyMs && one.loop === loop),
  })),
);
const medianOf = (own: readonly Measured[], pick: (one: Measured) => number) => summarize(own.map(pick)).median;
printTable(
  `${steps} steps of 128 trajectories: medians (and quartiles) of ${numRepeats} runs`,
  ["environment", "loop", "seconds", "engine idle", "trainer idle", "staleness", "reward at the end"],
  rows.map(({ latencyMs, loop, own }) => [
    latencyMs === 0 ? "answers at once" : `takes ${latencyMs / 2} to ${1.5 * latencyMs} ms`,
    loop,
    spread(summarize(own.map(({ seconds }) => seconds)), 1),
    percent(medianOf(own, ({ engineIdle }) => engineIdle)),
    percent(medianOf(own, ({ trainerIdle }) => trainerIdle)),
    medianOf(own, ({ staleness }) => staleness).toFixed(2),
    medianOf(own, ({ reward }) => reward).toFixed(2),
  ]),
);
const speedups = latencies.map((latencyMs) => {
  const seconds = (loop: Measured["loop"]) =>
    medianOf(
      all.filter((one) => one.latencyMs === latencyMs && one.loop === loop),
      (one) => one.seconds,
    );
  return { latencyMs, speedup: seconds("sync") / seconds("async") };
});
for (const { latencyMs, speedup } of speedups) {
  const name = latencyMs === 0 ? "Answers at once" : `${latencyMs} ms`;
  console.log(`${name}: sync takes ${speedup.toFixed(2)} times as long as async.`);
}
writeResult("async", { steps, loops, speedups, runs: all });

async function measure(latencyMs: number, loop: keyof typeof loops, seed: number): Promise<Measured> {
  const { config } = resolveRun({
    seed,
    device: "cpu",
    model: { preset: "nano" },
    envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8, latencyMs }) } },
    rollout: { groupsPerStep: 16, groupSize: 8, contextLength: 16, sampling: { maxTokens: 2 } },
    algorithm: { type: "decoupled-ppo" },
    training: { optimizer: { lr: 1e-3 }, minibatch: 32 },
    loop: loops[loop],
  });
  const folder = mkdtempSync(join(tmpdir(), "reroll-async-"));
  const clock = () => performance.now();
  let timeline: SpanRecorder | undefined;
  let startedMs = 0;
  let endedMs = 0;
  let trainMs = 0;
  const staleness: number[] = [];
  let reward = 0;
  try {
    await trainRun(config, {
      folder,
      clock,
      signal: new AbortController().signal,
      isResumed: false,
      tracker: {
        ...silentTracker,
        sampleEvent: (event) => {
          if (timeline === undefined) {
            startedMs = event.atMs;
            timeline = new SpanRecorder(startedMs);
          }
          // What async samples beyond the last step is not part of the work.
          if (staleness.length < steps) timeline.addEvent(event);
        },
        span: async (stage, work) => {
          const from = clock();
          const result = await work();
          if (stage === "train") trainMs += clock() - from;
          return result;
        },
        log: (_step, _kind, metrics) => {
          staleness.push(metrics["train/staleness"] ?? 0);
          reward = metrics["reward/mean"] ?? Number.NaN;
          endedMs = clock();
        },
      },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  const wallMs = endedMs - startedMs;
  const { busyMs } = timeline!.endStep(steps, endedMs);
  return {
    latencyMs,
    loop,
    seconds: wallMs / 1000,
    engineIdle: 1 - busyMs.engine / wallMs,
    trainerIdle: 1 - trainMs / wallMs,
    staleness: staleness.reduce((sum, value) => sum + value, 0) / staleness.length,
    reward,
  };
}

function percent(share: number): string {
  return `${(100 * share).toFixed(0)} %`;
}
