/**
 * What every `Generate` promises, whoever samples: a local engine, a server on another machine, a fake.
 *
 * @example
 * describeGenerateContract("scripted engine", async () => ({ generate, vocabularySize, contextLength, decode, close }));
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RerollError } from "../../src/errors/reroll-error.ts";
import type { Generate, GenerateRequest, Generation, SampledTokens, Sampling } from "../../src/generation/generate.ts";

export interface GenerateUnderTest {
  readonly generate: Generate;
  /** At least 128; every id below it may be asked for. */
  readonly vocabularySize: number;
  /** Tokens of prompt and reply together; small enough to be filled in a test. */
  readonly contextLength: number;
  /** The text of tokens, as stop strings see it. */
  decode(ids: Iterable<number>): string;
  close(): Promise<void>;
}

export interface GenerateContractOptions {
  /** Parts that are left out, each with its reason. */
  readonly skip?: Partial<Record<"model log-probs under filters" | "stop strings" | "partial replies", string>>;
}

export function describeGenerateContract(
  name: string,
  setUp: () => Promise<GenerateUnderTest>,
  { skip = {} }: GenerateContractOptions = {},
): void {
  describe(`generate contract: ${name}`, () => {
    let subject: GenerateUnderTest;
    beforeAll(async () => {
      subject = await setUp();
    });
    afterAll(() => subject.close());
    const run = (sampling: Sampling, more: Partial<GenerateRequest> = {}) =>
      subject.generate({ promptIds: PROMPT, sampling, ...more });

    test("every list has one entry per token, and usage counts them", async () => {
      const generation = await run({ maxTokens: 9, seed: 1 });
      expectWholeTokens(generation, subject.vocabularySize);
      expect(generation.usage).toEqual({
        promptTokens: PROMPT.length,
        cachedTokens: expect.any(Number),
        generatedTokens: 9,
      });
      expect(generation.usage.cachedTokens).toBeLessThanOrEqual(PROMPT.length);
      expect(generation.topLogprobs).toBeUndefined();
    });

    test("log-probs are finite, not above 0, and equal under sampler and model when nothing changes the distribution", async () => {
      const { samplerLogprobs, drawLogprobs, modelLogprobs } = await run({ maxTokens: 20, seed: 2 });
      expect(drawLogprobs).toEqual(samplerLogprobs);
      for (const logprob of [...samplerLogprobs, ...modelLogprobs]) {
        expect(logprob).toBeLessThanOrEqual(0);
        expect(logprob).toBeGreaterThan(-Infinity);
      }
      for (const [index, logprob] of samplerLogprobs.entries()) expect(logprob).toBeCloseTo(modelLogprobs[index]!, 4);
    });

    test("a filter makes drawn tokens likelier than under the model", async (context) => {
      const reason = skip["model log-probs under filters"];
      context.skip(reason !== undefined, reason);
      const { drawLogprobs, samplerLogprobs, modelLogprobs } = await run({ maxTokens: 20, topK: 5, seed: 3 });
      for (const [index, logprob] of drawLogprobs.entries()) {
        expect(logprob).toBeLessThanOrEqual(1e-6);
        expect(logprob).toBeGreaterThanOrEqual(modelLogprobs[index]! - 1e-5);
      }
      // At temperature 1, a filter changes what is drawn from and nothing else.
      for (const [index, logprob] of samplerLogprobs.entries()) expect(logprob).toBeCloseTo(modelLogprobs[index]!, 4);
    });

    test("the same seed gives the same tokens, and other seeds give others", async () => {
      const sampling = { maxTokens: 12, temperature: 0.9, topP: 0.95 };
      const [first, again] = await Promise.all([run({ ...sampling, seed: 7 }), run({ ...sampling, seed: 7 })]);
      expect(again.tokenIds).toEqual(first.tokenIds);
      const others = await Promise.all([8, 9, 10].map((seed) => run({ ...sampling, seed })));
      expect(others.some(({ tokenIds }) => String(tokenIds) !== String(first.tokenIds))).toBe(true);
    });

    test("temperature 0 takes the likeliest token, as top-k 1 does", async () => {
      const greedy = await run({ maxTokens: 8, temperature: 0 });
      const topOne = await run({ maxTokens: 8, topK: 1, seed: 5 });
      expect(topOne.tokenIds).toEqual(greedy.tokenIds);
      expect(greedy.samplerLogprobs.every((logprob) => Number.isFinite(logprob) && logprob <= 0)).toBe(true);
    });

    test("a bias of 100 forces its token", async () => {
      const { tokenIds } = await run({ maxTokens: 4, logitBias: new Map([[65, 100]]), seed: 1 });
      expect([...tokenIds]).toEqual([65, 65, 65, 65]);
    });

    test("a prompt counts by its ids, not by the kind of list", async () => {
      const sampling = { maxTokens: 6, seed: 4 };
      const [plain, typed] = await Promise.all([
        subject.generate({ promptIds: PROMPT, sampling }),
        subject.generate({ promptIds: Int32Array.from(PROMPT), sampling }),
      ]);
      expect(typed.tokenIds).toEqual(plain.tokenIds);
    });

    test("maxTokens ends the reply at exactly that many", async () => {
      for (const maxTokens of [1, 2, 17]) {
        const { tokenIds, finish } = await run({ maxTokens, seed: 6 });
        expect(tokenIds).toHaveLength(maxTokens);
        expect(finish).toEqual({ kind: "length", limit: "max-tokens" });
      }
    });

    test("a stop id ends the reply where it first comes, and is part of it", async () => {
      const free = await run({ maxTokens: 24, seed: 11 });
      const tokenId = free.tokenIds[7]!;
      const end = free.tokenIds.indexOf(tokenId) + 1;
      const stopped = await run({ maxTokens: 24, seed: 11, stopIds: [tokenId] });
      expect([...stopped.tokenIds]).toEqual([...free.tokenIds.slice(0, end)]);
      expect(stopped.finish).toEqual({ kind: "stop", by: "token", tokenId });
    });

    test("a stop string ends the reply with the token that completes it", async (context) => {
      context.skip(skip["stop strings"] !== undefined, skip["stop strings"]);
      const letters = new Map(Array.from({ length: 26 }, (_, letter) => [97 + letter, 20] as const));
      const sampling = { maxTokens: 24, seed: 12, logitBias: letters };
      const free = await run(sampling);
      const text = subject.decode(free.tokenIds.slice(5, 8));
      const stopped = await run({ ...sampling, stopStrings: [text, "never there"] });
      const { length } = stopped.tokenIds;
      expect([...stopped.tokenIds]).toEqual([...free.tokenIds.slice(0, length)]);
      expect(subject.decode(stopped.tokenIds)).toContain(text);
      expect(subject.decode(stopped.tokenIds.slice(0, -1))).not.toContain(text);
      expect(stopped.finish).toEqual({ kind: "stop", by: "string", text });
    });

    test("what onTokens is given, joined, is the result", async () => {
      const parts: SampledTokens[] = [];
      const onTokens = (tokens: SampledTokens) => parts.push(tokens);
      const result = await run({ maxTokens: 30, seed: 13 }, { onTokens, numTopLogprobs: 2 });
      expect(parts.flatMap((part) => [...part.tokenIds])).toEqual([...result.tokenIds]);
      expect(parts.flatMap((part) => [...part.samplerLogprobs])).toEqual([...result.samplerLogprobs]);
      expect(parts.flatMap((part) => [...part.drawLogprobs])).toEqual([...result.drawLogprobs]);
      expect(parts.flatMap((part) => [...part.modelLogprobs])).toEqual([...result.modelLogprobs]);
      expect(parts.flatMap((part) => [...part.cacheVersions])).toEqual([...result.cacheVersions]);
      expect(parts.flatMap((part) => [...part.versions])).toEqual([...result.versions]);
      expect(parts.flatMap((part) => part.topLogprobs ?? [])).toEqual(result.topLogprobs);
    });

    test("the likeliest alternatives come best first, with the drawn token among them when it is one", async () => {
      const {
        tokenIds,
        modelLogprobs,
        topLogprobs = [],
      } = await run({ maxTokens: 10, seed: 14 }, { numTopLogprobs: 3 });
      expect(topLogprobs).toHaveLength(10);
      for (const [index, likeliest] of topLogprobs.entries()) {
        const logprobs = likeliest.map(({ logprob }) => logprob);
        expect(logprobs).toHaveLength(3);
        expect(logprobs).toEqual([...logprobs].sort((left, right) => right - left));
        const drawn = likeliest.find(({ tokenId }) => tokenId === tokenIds[index]);
        if (drawn !== undefined) expect(drawn.logprob).toBeCloseTo(modelLogprobs[index]!, 4);
        else expect(modelLogprobs[index]).toBeLessThanOrEqual(logprobs[2]! + 1e-5);
      }
    });

    test("an abort ends the reply with the tokens so far", async (context) => {
      context.skip(skip["partial replies"] !== undefined, skip["partial replies"]);
      const controller = new AbortController();
      const seen: number[] = [];
      const { tokenIds, finish } = await run(
        { maxTokens: subject.contextLength - PROMPT.length, seed: 15 },
        {
          signal: controller.signal,
          onTokens: (tokens) => {
            seen.push(...tokens.tokenIds);
            controller.abort();
          },
        },
      );
      expect(finish).toEqual({ kind: "aborted" });
      expect(tokenIds.length).toBeGreaterThan(0);
      expect(tokenIds.length).toBeLessThan(subject.contextLength - PROMPT.length);
      expect([...tokenIds]).toEqual(seen);
    });

    test("a callback that throws fails its own request", async () => {
      const onTokens = () => {
        throw new Error("broken callback");
      };
      const [broken, other] = await Promise.all([
        run({ maxTokens: 5, seed: 1 }, { onTokens }),
        run({ maxTokens: 5, seed: 1 }),
      ]);
      expect(broken.finish).toMatchObject({ kind: "failed", error: { code: "CALLBACK_FAILED" } });
      expect(other.tokenIds).toHaveLength(5);
    });

    test("a request that was aborted before it began has no tokens", async () => {
      const { tokenIds, finish } = await run({ maxTokens: 5 }, { signal: AbortSignal.abort() });
      expect(tokenIds).toHaveLength(0);
      expect(finish).toEqual({ kind: "aborted" });
    });

    test("a reply ends where the context ends", async () => {
      const promptIds = Array.from({ length: subject.contextLength - 5 }, (_, index) => 33 + (index % 90));
      const { tokenIds, finish } = await subject.generate({ promptIds, sampling: { maxTokens: 50, seed: 16 } });
      expect(tokenIds).toHaveLength(5);
      expect(finish).toEqual({ kind: "length", limit: "context" });
    });

    test("a prompt that fills the context is refused as an overflow", async () => {
      const promptIds = new Array<number>(subject.contextLength).fill(40);
      const refused = subject.generate({ promptIds, sampling: { maxTokens: 1 } });
      await expect(refused).rejects.toMatchObject({ name: "RerollError", code: "CONTEXT_OVERFLOW" });
    });

    test.each(INVALID)("an invalid request is refused: %s", async (_what, sampling, promptIds) => {
      const ids = promptIds === "past the vocabulary" ? [subject.vocabularySize + 5] : promptIds;
      const refused = subject.generate({ promptIds: ids ?? PROMPT, sampling: { maxTokens: 2, ...sampling } });
      await expect(refused).rejects.toBeInstanceOf(RerollError);
    });

    test("versions are whole numbers that never fall", async () => {
      const { versions } = await run({ maxTokens: 10, seed: 17 });
      expect(versions.every((version) => Number.isInteger(version) && version >= 0)).toBe(true);
      expect([...versions]).toEqual([...versions].sort((left, right) => left - right));
    });

    test("a session changes what a turn costs, and not its tokens", async () => {
      const first = await run({ maxTokens: 6, seed: 18 }, { sessionId: "contract" });
      const promptIds = [...PROMPT, ...first.tokenIds, 70, 71];
      const sampling = { maxTokens: 6, seed: 19 };
      const inSession = await subject.generate({ promptIds, sampling, sessionId: "contract" });
      const alone = await subject.generate({ promptIds, sampling });
      expect(inSession.tokenIds).toEqual(alone.tokenIds);
      expect(inSession.usage.promptTokens).toBe(promptIds.length);
      expect(inSession.usage.cachedTokens).toBeLessThan(promptIds.length);
    });

    test("64 requests at a time give what each gives alone", async () => {
      const requests = Array.from({ length: 64 }, (_, index) => ({
        promptIds: [...PROMPT, 40 + index],
        sampling: { maxTokens: 1 + (index % 13), seed: index, temperature: 1 + (index % 3) / 4 },
      }));
      const together = await Promise.all(requests.map((request) => subject.generate(request)));
      for (const generation of together) expectWholeTokens(generation, subject.vocabularySize);
      const sampled = [0, 17, 38, 63];
      for (const index of sampled) {
        const alone = await subject.generate(requests[index]!);
        expect(together[index]!.tokenIds).toEqual(alone.tokenIds);
      }
    });
  });
}

const PROMPT = [72, 101, 108, 108, 111];

const INVALID: readonly [
  what: string,
  sampling: Partial<Sampling>,
  promptIds?: readonly number[] | "past the vocabulary",
][] = [
  ["an empty prompt", {}, []],
  ["a negative token id", {}, [1, -1]],
  ["a token id that is no whole number", {}, [1.5]],
  ["a token id past the vocabulary", {}, "past the vocabulary"],
  ["maxTokens 0", { maxTokens: 0 }],
  ["maxTokens 1.5", { maxTokens: 1.5 }],
  ["a negative temperature", { temperature: -1 }],
  ["a temperature that is NaN", { temperature: Number.NaN }],
  ["an infinite temperature", { temperature: Infinity }],
  ["topP 0", { topP: 0 }],
  ["topP above 1", { topP: 1.1 }],
  ["a negative topK", { topK: -2 }],
  ["minP above 1", { minP: 2 }],
  ["repetitionPenalty 0", { repetitionPenalty: 0 }],
  ["a bias that is NaN", { logitBias: new Map([[3, Number.NaN]]) }],
  ["an empty stop string", { stopStrings: [""] }],
  ["a seed that is no whole number", { seed: 0.5 }],
  ["a negative seed", { seed: -1 }],
];

function expectWholeTokens(generation: Generation, vocabularySize: number): void {
  const { tokenIds, samplerLogprobs, drawLogprobs, modelLogprobs, versions, cacheVersions, usage, finish } = generation;
  expect(["stop", "length"]).toContain(finish.kind);
  const lists = [samplerLogprobs, drawLogprobs, modelLogprobs, versions, cacheVersions];
  expect([...lists.map(({ length }) => length), usage.generatedTokens]).toEqual(new Array(6).fill(tokenIds.length));
  expect(tokenIds.every((tokenId) => tokenId >= 0 && tokenId < vocabularySize)).toBe(true);
}
