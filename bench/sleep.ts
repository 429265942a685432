/**
 * What sleeping saves: the peak of a synchronous run whose engine shares the trainer's device, beside the sum of what the two need.
 *
 * npm run bench -- sleep [cpu|cuda]
 * Bar: the run's peak is at most the larger of the two phases plus what stays, and not their sum.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prepareRun } from "../src/run/prepare-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { cudaMemory, resetCudaPeak } from "../src/torch/cuda.ts";
import { memoryStats, resetPeakMemory } from "../src/torch/memory.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { printTable, writeResult } from "./report.ts";

const device = process.argv[2] ?? "cpu";
const isOnGpu = device.startsWith("cuda");
const peak = () => (isOnGpu ? cudaMemory().peakBytes : memoryStats().peakBytes);
const resetPeak = () => (isOnGpu ? resetCudaPeak() : resetPeakMemory());

const live = () => (isOnGpu ? cudaMemory().liveBytes : memoryStats().liveBytes);

/** The first thing of a training step is that the engine falls asleep; its peak counts from there. */
function resetOnceAsleep(): () => void {
  const before = live();
  const timer = setInterval(() => {
    if (live() > before - cacheBytes / 2) return;
    clearInterval(timer);
    resetPeak();
  }, 1);
  return () => clearInterval(timer);
}

const run = {
  device,
  model: { preset: "micro" },
  envs: { lake: { type: "frozen-lake", prompt: "compact", maxTurns: 4, answerTags: null } },
  rollout: { groupsPerStep: 32, groupSize: 8, maxInFlight: 256, contextLength: 1024, sampling: { maxTokens: 2 } },
  training: { optimizer: { lr: 1e-4 } },
  placement: { engine: { sleep: true } },
  loop: { type: "sync", steps: 3 },
  tracking: { tensorboard: false },
};
const { config, plan } = await prepareRun(run, [], {});
const bytesOf = (owner: string, what: string) =>
  plan.memory.find((part) => part.owner === owner && part.what === what)?.bytes ?? 0;
const cacheBytes = bytesOf("engine", "KV cache");
const folder = mkdtempSync(join(tmpdir(), "reroll-sleep-"));
/** The peak of each phase, by when the loop tells of it. */
const peaks = { rollout: 0, training: 0 };
try {
  await trainRun(config, {
    folder,
    tracker: {
      ...silentTracker,
      span: async (name, work) => {
        if (name !== "rollout" && name !== "train") return work();
        resetPeak();
        const stopWatching = name === "train" ? resetOnceAsleep() : () => {};
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
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const awake = peaks.training + cacheBytes;
const highest = Math.max(peaks.rollout, peaks.training);
printTable(
  `A synchronous run on ${device}`,
  ["", "bytes"],
  [
    ["KV cache of the engine", megabytes(cacheBytes)],
    ["peak while sampling", megabytes(peaks.rollout)],
    ["peak while training, the engine asleep", megabytes(peaks.training)],
    ["peak while training, if it had kept its cache", megabytes(awake)],
    ["peak of the run", megabytes(highest)],
  ],
);
writeResult(isOnGpu ? "gpu-sleep" : "sleep", { device, cacheBytes, peaks, awake, highest });
if (highest >= awake) process.exitCode = 1;
