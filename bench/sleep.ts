/**
 * What sleeping saves: the peak of a synchronous run whose engine shares the trainer's device, with its cache given back while the trainer works and with
 * its cache kept, beside the sum of what the two phases need.
 *
 * npm run bench -- sleep [cpu|cuda] [model folder]
 * Bar: the peak of the run that sleeps is that of its larger phase, and below both the other run's and the sum.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prepareRun } from "../src/run/prepare-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { zeros } from "../src/torch/create.ts";
import { cudaMemory, emptyCudaCache, resetCudaPeak } from "../src/torch/cuda.ts";
import { memoryStats, resetPeakMemory } from "../src/torch/memory.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { printTable, writeResult } from "./report.ts";

const [device = "cpu", model] = process.argv.slice(2);
const isOnGpu = device.startsWith("cuda");
const peak = () => (isOnGpu ? cudaMemory().peakBytes : memoryStats().peakBytes);
const live = () => (isOnGpu ? cudaMemory().liveBytes : memoryStats().liveBytes);
const resetPeak = () => (isOnGpu ? resetCudaPeak() : resetPeakMemory());
// The allocator knows of a device once something was on it.
if (isOnGpu) zeros([1], { device }).dispose();

const asleep = await measure(true);
if (isOnGpu) emptyCudaCache();
const awake = await measure(false);
const sum = asleep.rollout + asleep.training;
const highest = Math.max(asleep.rollout, asleep.training);
const highestAwake = Math.max(awake.rollout, awake.training);
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
printTable(
  `A synchronous run on ${device}`,
  ["", "engine sleeps", "engine keeps its cache"],
  [
    ["KV cache of the engine", megabytes(asleep.cache), megabytes(awake.cache)],
    ["peak while sampling", megabytes(asleep.rollout), megabytes(awake.rollout)],
    ["peak while training", megabytes(asleep.training), megabytes(awake.training)],
    ["peak of the run", megabytes(highest), megabytes(highestAwake)],
    ["sum of both phases", megabytes(sum), ""],
  ],
);
writeResult(isOnGpu ? "gpu-sleep" : "sleep", {
  device,
  model: model ?? "micro",
  asleep,
  awake,
  highest,
  highestAwake,
  sum,
});
if (highest >= Math.min(highestAwake, sum)) process.exitCode = 1;

/** The peak of each phase, by when the loop tells of it. */
async function measure(sleeps: boolean) {
  const { config, plan } = await prepareRun(
    {
      device,
      model: model === undefined ? { preset: "micro" } : { path: model },
      envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 4, answerTags: null } },
      rollout: { groupsPerStep: 32, groupSize: 8, maxInFlight: 256, contextLength: 1024, sampling: { maxTokens: 2 } },
      training: { optimizer: { lr: 1e-4 } },
      placement: { engine: { sleep: sleeps } },
      loop: { type: "sync", steps: 3 },
      checkpoint: { every: 0, minutes: null },
      tracking: { tensorboard: false },
    },
    [],
    {},
  );
  const cache = plan.memory.find(({ owner, what }) => owner === "engine" && what === "KV cache")?.bytes ?? 0;
  const folder = mkdtempSync(join(tmpdir(), "reroll-sleep-"));
  const peaks = { rollout: 0, training: 0 };
  try {
    await trainRun(config, {
      folder,
      tracker: {
        ...silentTracker,
        span: async (name, work) => {
          if (name !== "rollout" && name !== "train") return work();
          resetPeak();
          const stopWatching = name === "train" && sleeps ? resetOnceAsleep(cache) : () => {};
          const result = await work();
          stopWatching();
          const phase = name === "rollout" ? "rollout" : "training";
          peaks[phase] = Math.max(peaks[phase], peak());
          return result;
        },
      },
      signal: new AbortController().signal,
      clock: () => performance.now(),
      isResumed: false,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  return { cache, ...peaks };
}

/** The first thing of a training step is that the engine falls asleep; its peak counts from there. */
function resetOnceAsleep(cacheBytes: number): () => void {
  const before = live();
  const timer = setInterval(() => {
    if (live() > before - cacheBytes / 2) return;
    clearInterval(timer);
    resetPeak();
  }, 1);
  return () => clearInterval(timer);
}
