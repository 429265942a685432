/** Rewards at the edge of what float32 holds: a run loses samples or updates, and never its weights. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { RawRun } from "../../src/run/load-run-file.ts";
import { prepareRun } from "../../src/run/prepare-run.ts";
import { runTraining } from "../../src/run/run-training.ts";
import { inFolder } from "./lake-run.ts";

async function train(root: string, score: (numScored: number) => number, changes: RawRun = {}): Promise<void> {
  let numScored = 0;
  const run: RawRun = {
    name: "edge",
    device: "cpu",
    model: { preset: "nano" },
    data: { type: "rows", rows: [{ prompt: "a", answer: "b" }] },
    rewards: { default: { type: "custom", name: "edge", score: () => ({ value: score(++numScored) }) } },
    rollout: { groupsPerStep: 2, groupSize: 4, contextLength: 64, sampling: { maxTokens: 2 } },
    algorithm: { type: "reinforce" },
    training: { optimizer: { lr: 1e-3 } },
    loop: { type: "sync", steps: 2 },
    engine: { threads: 1 },
    tracking: { folder: root, tensorboard: false },
    ...changes,
  };
  await runTraining(await prepareRun(run, [], {}), {
    signal: new AbortController().signal,
    ...{ version: "test", environment: {}, runFile: "run.ts", console: null, command: "reroll" },
  });
}

const readLines = (path: string) =>
  readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

test("rewards whose squares overflow are failures of their samples, counted and not trained on", () =>
  inFolder(async (root) => {
    await train(root, (numScored) => [1e300, Number.NaN, 2e18, 1, 0][numScored % 5]!);
    const metrics = readLines(join(root, "edge/metrics.jsonl")).map((line) => line.metrics);
    expect(metrics).toHaveLength(2);
    for (const one of metrics) {
      expect(one).toMatchObject({ "train/skipped_updates": 0 });
      expect(one["rollout/failed_share"]).toBeGreaterThan(0.3);
      expect(Number.isFinite(one["train/loss"])).toBe(true);
    }
  }));

test("a run whose updates are skipped one after another stops, and leaves the batch and the weights from before", () =>
  inFolder(async (root) => {
    const bonus = { type: "reinforce", entropy: { type: "fixed", coefficient: 1e38 } };
    const stopped = train(root, (numScored) => numScored % 2, { algorithm: bonus, loop: { type: "sync", steps: 20 } });
    const path = join(root, "edge/skipped-batch.jsonl");
    await expect(stopped).rejects.toThrow(`10 updates in a row were skipped`);
    await expect(stopped).rejects.toThrow(path);
    const samples = readLines(path);
    expect(samples).toHaveLength(8);
    expect(samples[0]).toMatchObject({ group: 0, turn: 0 });
    expect(Math.max(...samples.flatMap(({ rewards }) => rewards))).toBe(1);
    expect(JSON.parse(readFileSync(join(root, "edge/run.json"), "utf8"))).toMatchObject({ status: "failed" });
    expect(readLines(join(root, "edge/warnings.jsonl")).map(({ code }) => code)).toContain("skipped-updates");
    expect(readdirSync(join(root, "edge"))).not.toContain("skipped-batch.jsonl.writing");
  }));
