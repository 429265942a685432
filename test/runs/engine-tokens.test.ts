/** The tokens and log-probs of the engine against the plain forward, for every family and whatever else is in the batch. */
import { setImmediate as nextTurn } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Sampling } from "../../src/generation/generate.ts";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { type Family, familyNames } from "../../src/models/causal-lm/families/table.ts";
import { greedy } from "../../src/models/causal-lm/greedy.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { tensor } from "../../src/torch/create.ts";
import { tensorScope } from "../../src/torch/scope.ts";

const contextLength = 40;
/** So small that sequences are preempted, prompts are cut, and groups do not fit. */
const tight = { contextLength, blockSize: 4, numBlocks: 14, maxRunning: 5, maxStepTokens: 11 };
const roomy = { contextLength, blockSize: 4 };

const someRequest = fc.record({
  /** Prompts share their first 13 tokens, whatever their base. */
  base: fc.integer({ min: 0, max: 2 }),
  promptLength: fc.constantFrom(1, 4, 12, 13, 18, 24),
  numSamples: fc.integer({ min: 1, max: 3 }),
  maxTokens: fc.integer({ min: 1, max: 16 }),
  kind: fc.constantFrom("greedy", "sampled"),
  seed: fc.nat(5),
  turnsBefore: fc.integer({ min: 0, max: 6 }),
  abortAfter: fc.option(fc.integer({ min: 1, max: 12 })),
  session: fc.option(fc.constantFrom("a", "b")),
});

/** Whether layers of the family may slide; in the first of two they do then, and the second sees everything. */
function slides(family: Family): boolean {
  return ["mistral", "gemma2", "gemma3_text", "gpt_oss"].includes(family);
}

describe.each(familyNames)("%s", (family) => {
  const model = tinyModel(
    tinyConfig(family, slides(family) ? { features: { slidingWindow: 7, fullLayers: [false, true] } } : {}),
  );
  afterAll(() => model.dispose());
  const alone = new TokensAlone(model);
  // The scheduler is the same for all: the others show that their layers go through it.
  const isThorough = ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe"].includes(family);

  test("every request gets the tokens it gets alone, with joins, leaves, aborts and shared prefixes", async () => {
    let numPreempted = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(someRequest, { minLength: 3, maxLength: 9 }), async (requests) => {
        const engine = new LocalEngine(model, tight);
        await Promise.all(requests.map((request) => runAndCompare(engine, alone, request)));
        engine.updateWeights(1, () => {});
        expect(engine.status()).toMatchObject({ cacheUsage: 0, runningRequests: 0, queuedRequests: 0 });
        const { prefilledTokens, cachedTokens } = engine.status().counters;
        const promptTokens = requests.reduce((sum, one) => sum + one.promptLength * one.numSamples, 0);
        if (prefilledTokens + cachedTokens > promptTokens) numPreempted++;
        await engine.close();
      }),
      { numRuns: isThorough ? 12 : 1, seed: 7 },
    );
    if (isThorough) expect(numPreempted).toBeGreaterThan(0);
  });

  test("log-probs are those of the trainer's forward, at the sampling temperature and at 1", async () => {
    const engine = new LocalEngine(model, { ...tight, maxStepTokens: 16 });
    const temperature = 0.7;
    const prompts = [0, 1, 2, 0, 1].map((base, i) => promptOf(base, 5 + 4 * i));
    const results = await Promise.all(
      prompts.map((promptIds, seed) => engine.generate({ promptIds, sampling: { maxTokens: 12, temperature, seed } })),
    );
    for (const [i, { tokenIds, modelLogprobs, samplerLogprobs }] of results.entries()) {
      expect(maxGap(modelLogprobs, trainerLogprobs(model, prompts[i]!, tokenIds, 1))).toBeLessThan(1e-4);
      expect(maxGap(samplerLogprobs, trainerLogprobs(model, prompts[i]!, tokenIds, temperature))).toBeLessThan(1e-4);
    }
    await engine.close();
  });
});

test("frequencies of sampled tokens match the model's distribution", async () => {
  const model = tinyModel(tinyConfig("qwen3"));
  const engine = new LocalEngine(model, roomy);
  const count = 4_000;
  const promptIds = promptOf(0, 9);
  const results = await Promise.all(
    Array.from({ length: count }, (_, seed) => engine.generate({ promptIds, sampling: { maxTokens: 1, seed } })),
  );
  const counts = new Array<number>(29).fill(0);
  for (const { tokenIds } of results) counts[tokenIds[0]!]!++;
  const every = Array.from({ length: 29 }, (_, id) => trainerLogprobs(model, promptIds, Int32Array.of(id), 1)[0]!);
  const chiSquare = every.reduce((sum, logprob, id) => {
    const expected = count * Math.exp(logprob);
    return sum + (counts[id]! - expected) ** 2 / expected;
  }, 0);
  // 28 degrees of freedom: 1 in 10,000 is above 64.
  expect(chiSquare).toBeLessThan(64);
  await engine.close();
  model.dispose();
});

type SomeRequest = typeof someRequest extends fc.Arbitrary<infer Value> ? Value : never;

async function runAndCompare(engine: LocalEngine, alone: TokensAlone, request: SomeRequest): Promise<void> {
  const { base, promptLength, maxTokens, kind, abortAfter } = request;
  for (let turn = 0; turn < request.turnsBefore; turn++) await nextTurn();
  const promptIds = promptOf(base, promptLength);
  const samples = Array.from({ length: request.numSamples }, async (_, i) => {
    const sampling: Sampling = {
      maxTokens,
      temperature: kind === "greedy" ? 0 : 0.9,
      topK: 20,
      seed: request.seed + i,
    };
    const controller = new AbortController();
    let numSeen = 0;
    const { tokenIds, finish } = await engine.generate({
      promptIds,
      sampling,
      signal: controller.signal,
      onTokens: () => ++numSeen === abortAfter && controller.abort(),
      ...(request.session === null ? {} : { sessionId: request.session }),
    });
    const isCut = abortAfter !== null && abortAfter <= maxTokens;
    expect(finish).toEqual(isCut ? { kind: "aborted" } : { kind: "length", limit: "max-tokens" });
    const expected = kind === "greedy" ? alone.greedy(promptIds) : await alone.sampled(promptIds, sampling);
    expect([...tokenIds]).toEqual(expected.slice(0, isCut ? abortAfter : maxTokens));
  });
  await Promise.all(samples);
}

/** What a request gives alone, remembered: prompts come often. */
class TokensAlone {
  readonly #model: CausalLm;
  readonly #known = new Map<string, number[]>();

  constructor(model: CausalLm) {
    this.#model = model;
  }

  greedy(prompt: readonly number[]): number[] {
    const key = String(prompt);
    const [tokens] = this.#known.has(key)
      ? [this.#known.get(key)!]
      : greedy(this.#model, [prompt], { numTokens: 16, useCache: false });
    this.#known.set(key, tokens!);
    return tokens!;
  }

  async sampled(promptIds: readonly number[], sampling: Sampling): Promise<number[]> {
    const key = `${promptIds} ${sampling.seed}`;
    const found = this.#known.get(key);
    if (found !== undefined) return found;
    const engine = new LocalEngine(this.#model, roomy);
    const { tokenIds } = await engine.generate({ promptIds, sampling: { ...sampling, maxTokens: 16 } });
    await engine.close();
    this.#known.set(key, [...tokenIds]);
    return [...tokenIds];
  }
}

function promptOf(base: number, length: number): number[] {
  return Array.from({ length }, (_, i) => (i < 13 ? (5 * i + 3) % 29 : (11 * i + 7 * base) % 29));
}

function trainerLogprobs(model: CausalLm, prompt: readonly number[], reply: Int32Array, temperature: number): number[] {
  const tokens = [...prompt, ...reply];
  return tensorScope(() =>
    inferenceMode(() => {
      const ids = (values: readonly number[]) => tensor(Int32Array.from(values), [values.length], { dtype: "int64" });
      const hidden_SD = model.forward(ids(tokens.slice(0, -1)), packedLayout([tokens.length - 1]));
      const { logprobs_S } = tokenLogprobs(hidden_SD, model.head, ids(tokens.slice(1)), {
        temperature,
        softCap: model.softCap,
      });
      return logprobs_S.toArray().slice(prompt.length - 1);
    }),
  );
}

function maxGap(left: ArrayLike<number>, right: readonly number[]): number {
  return Math.max(...right.map((value, i) => Math.abs(value - left[i]!)));
}
