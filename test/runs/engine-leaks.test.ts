/** Thousands of requests, many of them aborted, leave nothing behind: no cache blocks, no tensors, no memory. */
import { expect, test } from "vitest";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { uniformAt } from "../../src/generation/local/uniform.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { native } from "../../src/torch/binding.ts";

test("10,000 random requests with aborts leave no blocks, no tensors and no memory", async () => {
  const model = tinyModel(tinyConfig("qwen3", { numLayers: 1 }));
  const start = native.memoryStats();
  const engine = new LocalEngine(model, { contextLength: 32, blockSize: 4, numBlocks: 64, maxStepTokens: 256 });
  const round = (from: number) =>
    Promise.all(Array.from({ length: 1_000 }, (_, i) => runRandomRequest(engine, from + i)));
  await round(0);
  const before = native.memoryStats();
  for (let from = 1_000; from < 10_000; from += 1_000) await round(from);
  const after = native.memoryStats();
  expect(after.liveTensors).toBeLessThanOrEqual(before.liveTensors);
  expect(after.liveBytes).toBeLessThanOrEqual(before.liveBytes);
  const { requests, finished, aborted, failed } = engine.status().counters;
  expect([requests, finished + aborted, failed]).toEqual([10_000, 10_000, 0]);
  expect(aborted).toBeGreaterThan(1_000);
  engine.updateWeights(1, () => {});
  expect(engine.status()).toMatchObject({ cacheUsage: 0, queuedRequests: 0, runningRequests: 0 });
  await engine.close();
  expect(native.memoryStats().liveBytes).toBeLessThanOrEqual(start.liveBytes + rotaryBytes);
  model.dispose();
});

/** The model's own table of angles, made at its first use: 32 positions of 3 angles, cos and sin, with room to round. */
const rotaryBytes = 4_096;

async function runRandomRequest(engine: LocalEngine, number: number): Promise<void> {
  const random = (what: number, below: number) => Math.floor(uniformAt(number, what) * below);
  const controller = new AbortController();
  const abortAfter = random(0, 3) === 0 ? random(1, 4) : null;
  if (abortAfter === 0) controller.abort();
  let numSeen = 0;
  await engine.generate({
    promptIds: Array.from({ length: 1 + random(2, 12) }, (_, i) => (i + random(3, 4)) % 29),
    sampling: { maxTokens: 1 + random(4, 5), seed: number, topK: random(5, 3), stopIds: [random(6, 29)] },
    signal: controller.signal,
    onTokens: () => ++numSeen === abortAfter && controller.abort(),
    ...(random(7, 4) === 0 ? { sessionId: String(random(8, 5)) } : {}),
  });
}
