/** Whole runs, small ones: reward rises, the trainer agrees with the sampler, and the seed decides everything. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sortDigits } from "../../bench/sort-digits.ts";
import type { Metrics } from "../../src/flow/metrics.ts";
import { resolveRun } from "../../src/run/resolve-run.ts";
import { trainRun } from "../../src/run/train-run.ts";
import { silentTracker } from "../../src/tracking/run-tracker.ts";

/** The metrics of every step, without times. */
async function learn(seed: number, steps: number): Promise<Metrics[]> {
  const { config } = resolveRun({
    seed,
    device: "cpu",
    model: { preset: "nano" },
    envs: { sort: { type: "custom", ...sortDigits({ numDigits: 2, base: 8 }) } },
    rollout: { groupsPerStep: 32, groupSize: 8, contextLength: 16, sampling: { maxTokens: 2 } },
    training: { optimizer: { lr: 2e-3 }, minibatch: 64 },
    loop: { type: "sync", steps },
  });
  const folder = mkdtempSync(join(tmpdir(), "reroll-learning-"));
  const all: Metrics[] = [];
  try {
    await trainRun(config, {
      folder,
      tracker: {
        ...silentTracker,
        log: (_step, _kind, metrics) => {
          const isTime = (name: string) => /^(time|throughput|memory)\/|^sync\/ms$/.test(name);
          all.push(Object.fromEntries(Object.entries(metrics).filter(([name]) => !isTime(name))));
        },
      },
      signal: new AbortController().signal,
      clock: () => performance.now(),
      isResumed: false,
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
  return all;
}

test("reward rises from chance, and the trainer finds the sampler's log-probs at every step", async () => {
  const steps = await learn(1, 16);
  expect(steps).toHaveLength(16);
  // One of eight digits, or of eleven tokens, in each place.
  expect(steps[0]!["reward/mean"]).toBeLessThan(0.2);
  expect(steps.at(-1)!["reward/mean"]).toBeGreaterThan(0.6);
  for (const metrics of steps) {
    expect(metrics["train/sampler_gap_max"]).toBeLessThan(1e-4);
    expect(metrics).toMatchObject({ "train/staleness_max": 0, "rollout/trajectories": 256, "train/updates": 4 });
  }
});

test("a seed gives the same metrics every time, and another seed others", async () => {
  const first = await learn(3, 4);
  expect(await learn(3, 4)).toEqual(first);
  const other = await learn(4, 1);
  expect(other[0]!["train/loss"]).not.toBe(first[0]!["train/loss"]);
  expect(other[0]!["reward/mean"]).not.toBe(first[0]!["reward/mean"]);
});
