import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { GenerateRequest, Sampling } from "../generate.ts";
import { adoptWeights } from "./adopt-weights.ts";
import type { EngineOptions } from "./engine-options.ts";
import { LocalEngine } from "./local-engine.ts";

const model = tinyModel(tinyConfig("qwen3"));
const engines: LocalEngine[] = [];
// Here, so that none is freed while a test counts memory.
const owner = tinyModel(tinyConfig("qwen3"), { seed: 5 });
const borrower = tinyModel(tinyConfig("qwen3"));
const stranger = tinyModel(tinyConfig("qwen3", { vocabSize: 31 }));

function makeEngine(options: EngineOptions & { readonly version?: number } = {}): LocalEngine {
  const engine = new LocalEngine(model, { blockSize: 4, ...options });
  engines.push(engine);
  return engine;
}

afterEach(async () => {
  for (const engine of engines.splice(0)) {
    await engine.abortAll();
    engine.updateWeights(1_000, () => {});
    expect(engine.status()).toMatchObject({ cacheUsage: 0, queuedRequests: 0, runningRequests: 0 });
    await engine.close();
  }
});

const prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];

test("16 samples of one prompt pay for it once", async () => {
  const engine = makeEngine({ maxStepTokens: 16 });
  const long = Array.from({ length: 42 }, (_, i) => (7 * i) % 29);
  const samples = Array.from({ length: 16 }, (_, seed) => ({ promptIds: long, sampling: { maxTokens: 3, seed } }));
  const results = await Promise.all(samples.map(engine.generate));
  expect(engine.status().counters).toMatchObject({ prefilledTokens: 42, cachedTokens: 15 * 42, generatedTokens: 48 });
  expect(results.map(({ usage }) => usage.cachedTokens)).toEqual([0, ...new Array<number>(15).fill(42)]);
});

test("a turn of a session pays for its new tokens only", async () => {
  const engine = makeEngine();
  let promptIds = prompt;
  const costs: number[] = [];
  for (let turn = 0; turn < 4; turn++) {
    const before = engine.status().counters.prefilledTokens;
    const { tokenIds } = await engine.generate({ promptIds, sampling: { maxTokens: 5, seed: turn }, sessionId: "a" });
    costs.push(engine.status().counters.prefilledTokens - before);
    promptIds = [...promptIds, ...tokenIds, 20 + turn, 21 + turn];
  }
  // Two tokens that came from outside, and the last of the reply, which was drawn and never computed.
  expect(costs).toEqual([10, 3, 3, 3]);
});

test("an abort ends one request with its tokens so far, and no other", async () => {
  const engine = makeEngine();
  const controller = new AbortController();
  const [aborted, other] = await Promise.all([
    engine.generate({
      promptIds: prompt,
      sampling: { maxTokens: 20, temperature: 0 },
      signal: controller.signal,
      onTokens: () => ++numSeen === 3 && controller.abort(),
    }),
    engine.generate({ promptIds: prompt, sampling: { maxTokens: 20, temperature: 0 } }),
  ]);
  expect(aborted.finish).toEqual({ kind: "aborted" });
  expect([...aborted.tokenIds]).toEqual([...other.tokenIds.slice(0, 3)]);
  expect(other.finish).toEqual({ kind: "length", limit: "max-tokens" });
  expect(engine.status().counters).toMatchObject({ requests: 2, finished: 1, aborted: 1, failed: 0 });
});
let numSeen = 0;

test("a request that was begun is ended by hand with its tokens so far, as often as one likes", async () => {
  const engine = makeEngine();
  let numSeen = 0;
  const { generation, abort } = engine.begin({
    promptIds: prompt,
    sampling: { maxTokens: 20, temperature: 0 },
    onTokens: () => ++numSeen === 3 && abort(),
  });
  const { finish, tokenIds } = await generation;
  abort();
  expect([finish.kind, tokenIds.length]).toEqual(["aborted", 3]);
  expect(engine.status().counters).toMatchObject({ requests: 1, finished: 0, aborted: 1, failed: 0 });
  expect(() => engine.begin({ promptIds: [], sampling: { maxTokens: 1 } })).toThrow("promptIds is empty");
});

test("several prompts that share blocks with their followers in one step draw what they draw alone", async () => {
  const requests = [0, 1, 2].flatMap((first) =>
    [0, 1, 2].map((seed) => ({ promptIds: [first, ...prompt], sampling: { maxTokens: 6, seed: 3 * first + seed } })),
  );
  const together = await Promise.all(requests.map(makeEngine().generate));
  for (const [i, request] of requests.entries()) {
    const alone = await makeEngine().generate(request);
    expect([...together[i]!.tokenIds]).toEqual([...alone.tokenIds]);
  }
});

test("a callback may abort the others of its step", async () => {
  const engine = makeEngine();
  const controller = new AbortController();
  const [first, second] = await Promise.all([
    engine.generate({ promptIds: prompt, sampling: { maxTokens: 4 }, onTokens: () => controller.abort() }),
    engine.generate({ promptIds: prompt, sampling: { maxTokens: 4 }, signal: controller.signal }),
  ]);
  expect(first.finish.kind).toBe("length");
  expect(second).toMatchObject({ finish: { kind: "aborted" }, tokenIds: new Int32Array() });
});

test("a callback that throws fails its own request and no other", async () => {
  const engine = makeEngine();
  const [first, second] = await Promise.all([
    engine.generate({
      promptIds: prompt,
      sampling: { maxTokens: 4 },
      onTokens: () => {
        throw new Error("no room");
      },
    }),
    engine.generate({ promptIds: prompt, sampling: { maxTokens: 4 } }),
  ]);
  expect(first.finish).toMatchObject({ kind: "failed", error: { code: "CALLBACK_FAILED" } });
  expect(second.finish.kind).toBe("length");
});

test("abortAll ends running and waiting requests", async () => {
  const engine = makeEngine({ maxRunning: 2 });
  const all = [1, 2, 3, 4].map((id) => engine.generate({ promptIds: [id], sampling: { maxTokens: 50 } }));
  await turns(4);
  expect(engine.status()).toMatchObject({ runningRequests: 2, queuedRequests: 2 });
  await engine.abortAll();
  const results = await Promise.all(all);
  expect(results.every(({ finish }) => finish.kind === "aborted")).toBe(true);
  expect(results.map(({ tokenIds }) => tokenIds.length > 0)).toEqual([true, true, false, false]);
});

test("a paused engine draws nothing, and goes on as if nothing had happened", async () => {
  const engine = makeEngine();
  const sampling = { maxTokens: 12, seed: 3 };
  const expected = await engine.generate({ promptIds: prompt, sampling });
  const result = engine.generate({ promptIds: prompt, sampling });
  await turns(4);
  await engine.pause();
  const { steps } = engine.status().counters;
  await turns(10);
  expect(engine.status()).toMatchObject({ isPaused: true, runningRequests: 1, counters: { steps } });
  engine.resume();
  expect((await result).tokenIds).toEqual(expected.tokenIds);
});

test("requests that come while it is paused wait", async () => {
  const engine = makeEngine();
  await engine.pause();
  const result = engine.generate({ promptIds: prompt, sampling: { maxTokens: 1 } });
  await turns(5);
  expect(engine.status()).toMatchObject({ queuedRequests: 1, counters: { steps: 0 } });
  engine.resume();
  expect((await result).tokenIds).toHaveLength(1);
});

test("an engine that shares weights sees what their owner writes, and computes nothing while they change", async () => {
  const engine = new LocalEngine(borrower, { blockSize: 4 });
  const other = new LocalEngine(owner);
  engines.push(engine, other);
  const sampling = { maxTokens: 8, temperature: 0 };
  const share = (version: number) =>
    engine.shareWeights(version, (model) =>
      tensorScope(() => adoptWeights(model, new Map([...owner.namedParameters()].map(([n, p]) => [n, p.detach()])))),
    );
  share(1);
  expect((await engine.generate({ promptIds: prompt, sampling })).tokenIds).toEqual(
    (await other.generate({ promptIds: prompt, sampling })).tokenIds,
  );
  engine.hold();
  const { steps } = engine.status().counters;
  const waiting = engine.generate({ promptIds: prompt, sampling });
  const score = engine.scorePrompt(Int32Array.from(prompt));
  noGrad(() => tensorScope(() => owner.embedding.mul_(-1)));
  await turns(5);
  expect(engine.status()).toMatchObject({ isPaused: false, queuedRequests: 1, counters: { steps } });
  share(2);
  const changed = new LocalEngine(owner);
  engines.push(changed);
  const { tokenIds, versions } = await waiting;
  expect(tokenIds).toEqual((await changed.generate({ promptIds: prompt, sampling })).tokenIds);
  expect([...versions]).toEqual(new Array(8).fill(2));
  expect([...(await score)]).toEqual([...(await changed.scorePrompt(Int32Array.from(prompt)))]);
});

test("weights of another shape are not shared, and those that were there stay", async () => {
  const engine = makeEngine();
  const before = await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3, seed: 1 } });
  expect(() => engine.shareWeights(1, (model) => adoptWeights(model, stranger.namedParameters()))).toThrow(
    /^The engine's model has embedding as float32 \[29, 16\] on cpu, and was lent float32 \[31, 16\] on cpu\./,
  );
  const after = await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3, seed: 1 } });
  expect(after.tokenIds).toEqual(before.tokenIds);
});

test("new weights come in flight: tokens drawn before and after say so", async () => {
  const engine = makeEngine({ version: 4 });
  const versionsSeen: number[] = [];
  const { versions, finish } = await engine.generate({
    promptIds: prompt,
    sampling: { maxTokens: 6 },
    onTokens: ({ versions }) => {
      versionsSeen.push(versions[0]!);
      if (versionsSeen.length === 2) engine.updateWeights(5, () => {});
      if (versionsSeen.length === 3) engine.updateWeights(7, () => {});
    },
  });
  expect([...versions]).toEqual([4, 4, 5, 7, 7, 7]);
  expect(versionsSeen).toEqual([...versions]);
  expect(finish.kind).toBe("length");
});

test.each([false, true])(
  "after new weights, tokens are drawn on old keys and values or on new ones (reprefills: %s)",
  async (reprefills) => {
    const own = tinyModel(tinyConfig("qwen3"));
    const engine = new LocalEngine(own, { blockSize: 4, contextLength: 64, reprefills });
    const change = (changed: CausalLm) =>
      noGrad(() => tensorScope(() => changed.parameters().forEach((one) => void one.mul_(1.2).add_(0.01))));
    let numSeen = 0;
    const swap = () => {
      if (++numSeen === 12) engine.updateWeights(1, change);
    };
    const request = { promptIds: prompt, sampling: { maxTokens: 24, seed: 5 } };
    // Another one beside it, which is taken off and put back as well.
    const [reply] = await Promise.all([
      engine.generate({ ...request, onTokens: swap }),
      engine.generate({ ...request, promptIds: [7, 7, 7] }),
    ]);
    expect([...reply.versions]).toEqual([...new Array<number>(12).fill(0), ...new Array<number>(12).fill(1)]);
    expect([...reply.cacheVersions.slice(12)]).toEqual(new Array(12).fill(reprefills ? 1 : 0));
    const gaps: number[] = [];
    for (let t = 13; t < 24; t++) {
      // What the new weights say of the same token, from a cache of their own.
      const promptIds = [...prompt, ...reply.tokenIds.slice(0, t)];
      const again = await engine.generate({ promptIds, sampling: { maxTokens: 1 }, numTopLogprobs: 29 });
      const same = again.topLogprobs![0]!.find(({ tokenId }) => tokenId === reply.tokenIds[t])!;
      gaps.push(Math.abs(same.logprob - reply.modelLogprobs[t]!));
    }
    if (reprefills) expect(Math.max(...gaps)).toBeLessThan(1e-5);
    else expect(Math.max(...gaps)).toBeGreaterThan(1e-3);
    await engine.close();
    own.dispose();
  },
);

test("requests that draw in one step carry one version, also when a callback brings new weights", async () => {
  const engine = makeEngine();
  const results = await Promise.all([
    engine.generate({
      promptIds: prompt,
      sampling: { maxTokens: 2 },
      onTokens: () => engine.updateWeights(1, () => {}),
    }),
    engine.generate({ promptIds: prompt, sampling: { maxTokens: 2 } }),
  ]);
  expect(results.map(({ versions }) => [...versions])).toEqual([
    [0, 1],
    [0, 1],
  ]);
});

test("new weights are used by the next token", async () => {
  const own = tinyModel(tinyConfig("llama"));
  const engine = new LocalEngine(own);
  const result = engine.generate({ promptIds: prompt, sampling: { maxTokens: 8, temperature: 0 }, onTokens: swap });
  function swap({ versions }: { versions: Int32Array }): void {
    if (versions[0] === 1) return;
    // An output matrix with one row above all others draws that token only.
    engine.updateWeights(1, ({ norm, head }) => {
      noGrad(() => {
        norm.weight.zero_();
        norm.weight.select(0, 0).add_(1);
        head.zero_();
        head.select(1, 0).copy_(tensor(Array.from({ length: 29 }, (_, id) => (id === 17 ? 1 : id === 18 ? -1 : 0))));
      });
    });
  }
  const { tokenIds } = await result;
  expect([17, 18]).toContain(tokenIds[1]);
  expect([...tokenIds.slice(1)].every((id) => id === 17 || id === 18)).toBe(true);
  await engine.close();
  own.dispose();
});

test("a reply that was cut goes on under a newer version, and draws as if it had not been cut", async () => {
  const engine = makeEngine();
  const sampling = { maxTokens: 12, seed: 5 };
  const whole = await engine.generate({ promptIds: prompt, sampling });
  const controller = new AbortController();
  const part = await engine.generate({
    promptIds: prompt,
    sampling,
    signal: controller.signal,
    onTokens: () => ++numCut === 5 && controller.abort(),
  });
  engine.updateWeights(1, () => {});
  const rest = await engine.generate({
    promptIds: [...prompt, ...part.tokenIds],
    sampling: { ...sampling, maxTokens: 12 - part.tokenIds.length },
  });
  expect([...part.tokenIds, ...rest.tokenIds]).toEqual([...whole.tokenIds]);
  expect([...part.versions, ...rest.versions]).toEqual([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]);
});
let numCut = 0;

test("versions are those of whoever publishes: another run may begin below the last one's", async () => {
  const engine = makeEngine({ version: 3 });
  engine.updateWeights(2, () => {});
  expect([...(await engine.generate({ promptIds: prompt, sampling: { maxTokens: 2 } })).versions]).toEqual([2, 2]);
  expect(() => engine.updateWeights(-1, () => {})).toThrow("version must be a whole number of at least 0: got -1.");
});

test("a full queue refuses, and says how many it takes", async () => {
  const engine = makeEngine({ maxQueued: 2 });
  const request = { promptIds: prompt, sampling: { maxTokens: 1 } };
  const taken = [engine.generate(request), engine.generate(request)];
  await expect(engine.generate(request)).rejects.toMatchObject({
    code: "QUEUE_FULL",
    message: expect.stringContaining("2 requests waiting"),
  });
  await Promise.all(taken);
  await engine.generate(request);
});

test("a prompt longer than a step is computed in pieces, with the same result", async () => {
  const request = { promptIds: prompt, sampling: { maxTokens: 6, seed: 1 } };
  const [whole, pieces] = [makeEngine(), makeEngine({ maxStepTokens: 3 })];
  expect((await pieces.generate(request)).tokenIds).toEqual((await whole.generate(request)).tokenIds);
  expect(pieces.status().counters).toMatchObject({ prefilledTokens: 10, steps: 4 + 5 });
});

test("scores that are no numbers fail the request with the likely reason", async () => {
  const own = tinyModel(tinyConfig("qwen2"));
  noGrad(() => own.norm.weight.mul_(Number.NaN));
  const engine = new LocalEngine(own);
  const { finish, tokenIds } = await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3 } });
  expect(finish).toMatchObject({ kind: "failed", error: { code: "NON_FINITE" } });
  expect(tokenIds).toHaveLength(0);
  await engine.close();
  own.dispose();
});

test("a step that fails takes its requests with it, the samples that waited for it too, and the engine goes on", async () => {
  const own = tinyModel(tinyConfig("qwen3"));
  const engine = new LocalEngine(own);
  const request = { promptIds: prompt, sampling: { maxTokens: 3 } };
  const forward = own.forward.bind(own);
  own.forward = () => {
    throw new Error("out of memory");
  };
  const [failed, waiting] = [engine.generate(request), engine.generate({ ...request, promptIds: [1, 2] })];
  expect((await failed).finish).toMatchObject({ kind: "failed", error: { code: "STEP_FAILED" } });
  expect((await waiting).finish.kind).toBe("failed");
  own.forward = forward;
  // Scores of a shape that cannot be drawn from: this fails after the samples have joined.
  const logits = own.logits.bind(own);
  own.logits = () => tensor([0, 0]);
  const group = await Promise.all([1, 2, 3].map(() => engine.generate(request)));
  expect(group.map(({ finish }) => finish.kind)).toEqual(["failed", "failed", "failed"]);
  own.logits = logits;
  expect((await engine.generate(request)).finish.kind).toBe("length");
  expect(engine.status().cacheUsage).toBe(0);
  await engine.close();
  own.dispose();
});

test.each<[Partial<GenerateRequest>, Partial<Sampling>, string]>([
  [{ promptIds: [] }, {}, "promptIds is empty. A prompt has at least one token."],
  [{ promptIds: [1, 29] }, {}, "promptIds[1] is 29. Token ids are integers from 0 to 28."],
  [{ numTopLogprobs: 30 }, {}, "numTopLogprobs must be an integer from 0 to 29: got 30."],
  [{}, { maxTokens: 0 }, "maxTokens must be an integer of at least 1: got 0."],
  [{}, { temperature: -1 }, "temperature must be 0, or from 0.000001 to 1000000: got -1."],
  [{}, { topK: 1.5 }, "topK must be an integer, 0 for all tokens: got 1.5."],
  [{}, { topP: 0 }, "topP must be above 0 and at most 1: got 0."],
  [{}, { minP: 2 }, "minP must be from 0 to 1: got 2."],
  [{}, { repetitionPenalty: 0 }, "repetitionPenalty must be from 0.000001 to 1000000: got 0."],
  [{}, { seed: -1 }, "seed must be an integer from 0 to 2^53 - 1: got -1."],
  [
    {},
    { logitBias: new Map([[29, 1]]) },
    "logitBias has 29: 1. Keys are token ids below 29; values are finite, or -Infinity for a token that is never drawn.",
  ],
  [{}, { stopStrings: [""] }, "stopStrings has an empty string, which every text contains."],
  [{}, { stopStrings: ["x"] }, "stopStrings needs an engine with a tokenizer. Pass one, or use stopIds."],
])("a request that can never work is refused with what is wrong: %o %o", async (changes, sampling, message) => {
  const request = { promptIds: prompt, ...changes, sampling: { maxTokens: 1, ...sampling } };
  await expect(makeEngine().generate(request)).rejects.toMatchObject({ code: "INVALID_REQUEST", message });
});

test("a prompt that leaves no room for a reply is refused, and a reply ends where the context does", async () => {
  const engine = makeEngine({ contextLength: 12 });
  const refused = engine.generate({ promptIds: [...prompt, 1, 2], sampling: { maxTokens: 1 } });
  await expect(refused).rejects.toMatchObject({
    code: "CONTEXT_OVERFLOW",
    details: { promptTokens: 12, contextLength: 12 },
  });
  const { tokenIds, finish } = await engine.generate({ promptIds: prompt, sampling: { maxTokens: 9 } });
  expect(tokenIds).toHaveLength(2);
  expect(finish).toEqual({ kind: "length", limit: "context" });
});

test("a stop string ends a reply, at the token that completes it", async () => {
  const own = tinyModel(tinyConfig("qwen3", { vocabSize: 260 }));
  const tokenizer = await loadTokenizer("fixtures/tokenizer");
  const engine = new LocalEngine(own, { tokenizer });
  const sampling = { maxTokens: 12, seed: 2, logitBias: new Map([97, 98, 99].map((id) => [id, 50])) };
  const free = tokenizer.decode((await engine.generate({ promptIds: prompt, sampling })).tokenIds);
  const text = free.slice(4, 7);
  const stopped = await engine.generate({ promptIds: prompt, sampling: { ...sampling, stopStrings: [text] } });
  expect(tokenizer.decode(stopped.tokenIds)).toBe(free.slice(0, free.indexOf(text) + 3));
  expect(stopped.finish).toEqual({ kind: "stop", by: "string", text });
  await engine.close();
  own.dispose();
});

test("an engine too small for one context says how much it needs", () => {
  expect(() => new LocalEngine(model, { contextLength: 64, blockSize: 16, numBlocks: 3 })).toThrow(
    /at least 4 are needed/,
  );
});

test.each(["contextLength", "maxRunning", "maxQueued", "maxStepTokens", "blockSize", "numBlocks"])(
  "an engine with %s 0 would never answer, and is refused",
  (name) => {
    expect(() => new LocalEngine(model, { [name]: 0 })).toThrow(`${name} must be a whole number of at least 1: got 0.`);
  },
);

test("a closed engine aborts what it has and refuses the rest", async () => {
  const engine = new LocalEngine(model);
  const running = engine.generate({ promptIds: prompt, sampling: { maxTokens: 50 } });
  await turns(2);
  await engine.close();
  await engine.close();
  expect((await running).finish).toEqual({ kind: "aborted" });
  const refused = engine.generate({ promptIds: prompt, sampling: { maxTokens: 1 } });
  await expect(refused).rejects.toMatchObject({ code: "ENGINE_CLOSED" });
});

/** Lets the engine take about this many steps. */
async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await nextTurn();
}

test("an engine that sleeps has given its cache back, and goes on with its requests as if it had not slept", async () => {
  const request = { promptIds: prompt, sampling: { maxTokens: 12, seed: 5 }, sessionId: "a" };
  const awake = await makeEngine({ isSteady: true }).generate(request);
  const engine = makeEngine({ isSteady: true, numBlocks: 1024, contextLength: 64 });
  const withCache = memoryStats().liveBytes;
  const { numLayers, numKeyValueHeads, headSize } = model.config;
  let slept = Number.NaN;
  const onTokens = ({ tokenIds }: { tokenIds: Int32Array }) => {
    if (tokenIds[0] !== awake.tokenIds[4]) return;
    engine.sleep();
    slept = memoryStats().liveBytes;
  };
  const reply = await engine.generate({ ...request, onTokens });
  expect(reply.tokenIds).toEqual(awake.tokenIds);
  expect(reply.samplerLogprobs).toEqual(awake.samplerLogprobs);
  // Blocks of 4 tokens and the one that nobody reads, in float32.
  const cacheBytes = 1025 * 4 * 2 * numLayers * numKeyValueHeads * headSize * 4;
  expect(withCache - slept).toBeGreaterThanOrEqual(cacheBytes);
  expect(memoryStats().liveBytes).toBe(withCache);
});
