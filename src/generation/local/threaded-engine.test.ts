import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, test } from "vitest";
import { compileScript } from "../../../test/compile-script.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { saveCausalLm } from "../../models/causal-lm/save-causal-lm.ts";
import { namedWeights } from "../../models/causal-lm/weight-names.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { ones } from "../../torch/create.ts";
import { numWaitingParcels } from "../../torch/parcel.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { Generation, Sampling } from "../generate.ts";
import { LocalEngine } from "./local-engine.ts";
import { openThreadedEngine, startThreadedEngine } from "./threaded-engine.ts";

const folder = mkdtempSync(join(tmpdir(), "reroll-threaded-"));
const model = tinyModel(tinyConfig("qwen3", { maxPositions: 4096 }));
const newer = tinyModel(model.config, { seed: 2 });
saveCausalLm(model, folder);
afterAll(() => rmSync(folder, { recursive: true }));

const engine = await startThreadedEngine({ folder, version: 3, numThreads: 1, options: { contextLength: 4096 } });
afterAll(() => engine.close());
const prompt = [3, 1, 4, 1, 5];

test("a thread gives the tokens that the engine gives here", async () => {
  const local = new LocalEngine(model, { version: 3 });
  const requests = [1, 2, 3].map((seed) => ({
    promptIds: prompt,
    sampling: { maxTokens: 9, seed },
    numTopLogprobs: 2,
  }));
  const here = await Promise.all(requests.map(local.generate));
  expect(await Promise.all(requests.map(engine.generate))).toEqual(here);
  await local.close();
});

test("the samples of a group share their prompt in the thread too", async () => {
  const before = engine.status().counters.prefilledTokens;
  const promptIds = Array.from({ length: 70 }, (_, i) => (3 * i) % 29);
  await Promise.all(
    Array.from({ length: 16 }, (_, seed) => engine.generate({ promptIds, sampling: { maxTokens: 2, seed } })),
  );
  expect(engine.status().counters.prefilledTokens - before).toBe(70);
});

test("what is refused there is refused here, with its code and message", async () => {
  const refused = engine.generate({ promptIds: prompt, sampling: { maxTokens: 1, stopStrings: ["x"] } });
  await expect(refused).rejects.toMatchObject({
    name: "RerollError",
    code: "INVALID_REQUEST",
    message: "stopStrings needs an engine with a tokenizer. Pass one, or use stopIds.",
  });
});

test("a held thread ends the step under way, and draws the same tokens when it is released as without a pause", async () => {
  const request = { promptIds: prompt, sampling: { maxTokens: 200, seed: 5 } };
  const expected = await engine.generate(request);
  let numTokens = 0;
  let begin = () => {};
  const hasBegun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const result = engine.generate({
    ...request,
    onTokens: ({ tokenIds }) => {
      numTokens += tokenIds.length;
      begin();
    },
  });
  await hasBegun;
  await engine.hold();
  const numHeld = numTokens;
  expect(numHeld).toBeLessThan(200);
  // Answers to later calls: the thread would have stepped in between.
  for (let i = 0; i < 20; i++) await engine.hold();
  expect(numTokens).toBe(numHeld);
  await engine.release();
  expect(await result).toEqual(expected);
  // Its answer brings the status up to date, which the next test counts from.
  await engine.abortAll();
});

test("status is that of the thread, with its counters", async () => {
  const before = engine.status().counters.finished;
  await engine.generate({ promptIds: prompt, sampling: { maxTokens: 2 } });
  expect(engine.status()).toMatchObject({ version: 3, contextLength: 4096, isPaused: false });
  expect(engine.status().counters.finished).toBe(before + 1);
});

test("a paused thread draws nothing until it is resumed", async () => {
  await engine.pause();
  expect(engine.status().isPaused).toBe(true);
  let hasTokens = false;
  const result = engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 1 },
    onTokens: () => {
      hasTokens = true;
    },
  });
  // An answer to a later call: the thread has seen the request by then.
  await engine.pause();
  expect(hasTokens).toBe(false);
  expect(engine.status().queuedRequests).toBe(1);
  engine.resume();
  expect((await result).tokenIds).toHaveLength(1);
});

test("abortAll ends what the thread has, each with its tokens", async () => {
  const all = [1, 2].map((seed) => startReply({ maxTokens: 4000, seed }));
  await Promise.all(all.map(({ started }) => started));
  await engine.abortAll();
  for (const { finish, tokenIds } of await Promise.all(all.map(({ result }) => result))) {
    expect(finish).toEqual({ kind: "aborted" });
    expect(tokenIds.length).toBeGreaterThan(0);
  }
});

test("a callback that throws fails its own request", async () => {
  const { finish } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 4000 },
    onTokens: () => {
      throw new Error("no room");
    },
  });
  expect(finish).toMatchObject({ kind: "failed", error: { code: "CALLBACK_FAILED" } });
});

test("new weights reach the thread in flight: versions change within a reply, and tokens are those of the new model", async () => {
  const local = new LocalEngine(newer);
  const { started, result } = startReply({ maxTokens: 600, seed: 1 });
  await started;
  await engine.updateWeights(4, weightsOf(newer));
  expect(engine.status().version).toBe(4);
  const { versions } = await result;
  expect([versions[0], versions.at(-1)]).toEqual([3, 4]);
  expect([...versions]).toEqual([...versions].sort());
  const request = { promptIds: prompt, sampling: { maxTokens: 9, seed: 8 } };
  expect((await engine.generate(request)).tokenIds).toEqual((await local.generate(request)).tokenIds);
  expect(numWaitingParcels()).toBe(0);
  await local.close();
});

test("weights that do not fit are refused, and the old ones stay", async () => {
  const refused = engine.updateWeights(5, new Map([["model.norm.weight", ones([3])]]));
  await expect(refused).rejects.toMatchObject({ code: "WEIGHTS_MISMATCH" });
  await expect(engine.updateWeights(0.5, weightsOf(newer))).rejects.toMatchObject({ code: "INVALID_VERSION" });
  expect(engine.status().version).toBe(4);
  expect(numWaitingParcels()).toBe(0);
});

test("a model that cannot be loaded rejects with the reason", async () => {
  await expect(startThreadedEngine({ folder: "/nowhere" })).rejects.toMatchObject({
    code: "CHECKPOINT_NOT_FOUND",
    message: expect.stringContaining("/nowhere has no config.json"),
  });
});

test("a closed thread aborts what it has and refuses the rest", async () => {
  const other = await startThreadedEngine({ folder, numThreads: 1 });
  const running = other.generate({ promptIds: prompt, sampling: { maxTokens: 4000 } });
  await Promise.all([other.close(), other.close()]);
  expect((await running).finish).toEqual({ kind: "aborted" });
  await expect(other.generate({ promptIds: prompt, sampling: { maxTokens: 1 } })).rejects.toMatchObject({
    code: "ENGINE_CLOSED",
  });
  await expect(other.pause()).rejects.toMatchObject({ code: "ENGINE_CLOSED" });
});

const compiled = await compileScript(new URL("../../../test/contracts/faulty-engine.ts", import.meta.url));
const faultyEngine = pathToFileURL(compiled.replace(/\.js$/, ""));

test.each([
  ["throws", /The engine's thread crashed: lost a wheel\. Start another engine\./],
  ["exits", /The engine's thread ended with code 7\./],
])("when the thread %s, requests end as failed and calls reject", async (fault, message) => {
  const faulty = await openThreadedEngine(faultyEngine, fault);
  const request = { promptIds: [1, 2], sampling: { maxTokens: 1 } };
  const [first, second] = [faulty.generate(request), faulty.generate(request)];
  const calls = [faulty.updateWeights(1, weightsOf(model)), faulty.pause()];
  const refusals = calls.map((call) => expect(call).rejects.toMatchObject({ code: "ENGINE_BROKEN" }));
  for (const { finish, usage } of [await first, await second]) {
    expect(finish).toMatchObject({
      kind: "failed",
      error: { code: "ENGINE_BROKEN", message: expect.stringMatching(message) },
    });
    expect(usage).toEqual({ promptTokens: 2, cachedTokens: 0, generatedTokens: 0 });
  }
  await Promise.all(refusals);
  await expect(faulty.generate(request)).rejects.toMatchObject({ code: "ENGINE_BROKEN" });
  await faulty.close();
  expect(numWaitingParcels()).toBe(0);
});

/** A reply of the engine, and when its first token is there. */
function startReply(sampling: Sampling): { started: Promise<void>; result: Promise<Generation> } {
  let hasStarted = () => {};
  const started = new Promise<void>((resolve) => {
    hasStarted = resolve;
  });
  return { started, result: engine.generate({ promptIds: prompt, sampling, onTokens: () => hasStarted() }) };
}

function weightsOf(source: CausalLm): Map<string, Tensor> {
  return new Map(namedWeights(source).map(({ name, parameter, viewOf }) => [name, viewOf(parameter.detach())]));
}

test("a caller may write into its prompt once the request is made", async () => {
  const sampling: Sampling = { maxTokens: 4, seed: 1 };
  const scratch = Int32Array.from(prompt);
  const asked = engine.generate({ promptIds: scratch, sampling });
  scratch.fill(0);
  expect([...(await asked).tokenIds]).toEqual([...(await engine.generate({ promptIds: prompt, sampling })).tokenIds]);
});
