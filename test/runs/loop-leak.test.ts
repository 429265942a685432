/** Hundreds of steps of a whole run leave nothing behind: no tensors in any thread, no growing process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { silentRecorder } from "../../src/run/run-recorder.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { memoryStats } from "../../src/torch/memory.ts";

test("after 300 steps the process holds what it held after 60", async () => {
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
    loop: { type: "sync", steps: 300 },
  });
  const folder = mkdtempSync(join(tmpdir(), "reroll-leak-"));
  const memory: { liveBytes: number; liveTensors: number; resident: number }[] = [];
  try {
    await trainRun(config, {
      folder,
      recorder: {
        ...silentRecorder,
        // Engine and trainer rest while a step is logged. Bytes are those of all threads, tensors those of this one.
        log: () => memory.push({ ...memoryStats(), resident: process.memoryUsage.rss() }),
      },
      signal: new AbortController().signal,
      clock: () => performance.now(),
      isResumed: false,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  expect(memory).toHaveLength(300);
  console.log(JSON.stringify([0,1,2,10,59,60,61,100,150,200,250,298,299].map((i)=>[i,memory[i]!.liveBytes,memory[i]!.liveTensors,Math.round(memory[i]!.resident/1e5)/10])));
  const after = memory[59]!;
  const last = memory.at(-1)!;
  expect(last.liveBytes).toBe(after.liveBytes);
  expect(last.liveTensors).toBe(after.liveTensors);
  expect(last.resident - after.resident).toBeLessThan(32e6);
});
