/** A hundred steps of a whole run leave nothing behind: no tensors in any thread, no objects, no growing process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { memoryStats } from "../../src/torch/memory.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

interface Held {
  /** Of tensors in all threads. */
  readonly liveBytes: number;
  /** Of this thread. */
  readonly liveTensors: number;
  readonly heap: number;
  readonly resident: number;
}

function held(): Held {
  collectGarbage();
  const { rss: resident, heapUsed: heap } = process.memoryUsage();
  const { liveBytes, liveTensors } = memoryStats();
  return { liveBytes, liveTensors, heap, resident };
}

test("after 140 steps the process holds what it held after 40", async () => {
  const { config } = resolveRun({
    device: "cpu",
    model: { preset: "nano" },
    envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8 }) } },
    rollout: { groupsPerStep: 1, groupSize: 4, contextLength: 16, sampling: { maxTokens: 2 } },
    algorithm: {
      type: "grpo",
      klLoss: { coefficient: 0.01 },
      entropy: { type: "adaptive", target: 1 },
      correction: { importance: { level: "token", threshold: 2 }, rejections: { token_k1: "0.25_4" } },
    },
    training: { optimizer: { lr: 1e-3 }, minibatch: 2 },
    replay: { capacity: 16, ratio: 0.5 },
    loop: { type: "sync", steps: 140 },
  });
  const folder = mkdtempSync(join(tmpdir(), "reroll-leak-"));
  const memory = new Map<number, Held>();
  try {
    await trainRun(config, {
      folder,
      tracker: {
        ...silentTracker,
        // Engine and trainer rest while a step is logged.
        log: (step) => {
          if (step === 40 || step === 140) memory.set(step, held());
        },
      },
      signal: new AbortController().signal,
      clock: () => performance.now(),
      isResumed: false,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  const [before, after] = [memory.get(40)!, memory.get(140)!];
  expect(after.liveBytes).toBe(before.liveBytes);
  expect(after.liveTensors).toBe(before.liveTensors);
  expect(after.heap - before.heap).toBeLessThan(1e6);
  // Garbage that the heaps of the other threads have not collected yet is in here: a coarse bound.
  expect(after.resident - before.resident).toBeLessThan(64e6);
});
