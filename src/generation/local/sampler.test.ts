import fc from "fast-check";
import { expect, test } from "vitest";
import { randn, tensor } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { sampleRows } from "../../torch/row-passes.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { Sampling } from "../generate.ts";
import { isDrawn } from "./drawn-rows.ts";
import { type DrawRequest, draw, launchDraws } from "./sampler.ts";
import { uniformAt } from "./uniform.ts";

/** What each row drew; null where it drew nothing. */
function drawTokens(scores_BV: Tensor, requests: readonly DrawRequest[]) {
  const rows = launchDraws(scores_BV, requests)();
  return requests.map((_, row) => {
    if (!isDrawn(rows, row)) return null;
    return {
      tokenId: rows.tokenIds[row]!,
      samplerLogprob: rows.samplerLogprobs[row]!,
      drawLogprob: rows.drawLogprobs[row]!,
      modelLogprob: rows.modelLogprobs[row]!,
      topLogprobs: rows.topLogprobs?.[row] ?? [],
    };
  });
}

const scores = [1.2, -0.4, 0.3, 2.1, -1.5, 0.9, 0.1, -0.2, 1.7, 0.5, -0.9, 0.6];
const seen = Int32Array.of(3, 4, 3);
const everyone: Sampling = { maxTokens: 1 };

const options: readonly [name: string, Omit<Sampling, "maxTokens">][] = [
  ["the plain scores", {}],
  ["a low temperature", { temperature: 0.5 }],
  ["a high temperature", { temperature: 2 }],
  ["top-k", { topK: 4 }],
  ["top-p", { topP: 0.7 }],
  ["min-p", { minP: 0.3 }],
  [
    "a bias",
    {
      logitBias: new Map([
        [4, 3],
        [8, -2],
        [0, Number.NEGATIVE_INFINITY],
      ]),
    },
  ],
  ["a repetition penalty", { repetitionPenalty: 1.8 }],
  [
    "all of them",
    { temperature: 1.3, topK: 9, topP: 0.9, minP: 0.1, repetitionPenalty: 1.2, logitBias: new Map([[1, 2]]) },
  ],
];

test.each(options)("frequencies match the distribution of %s", (_name, changes) => {
  const sampling = { ...everyone, ...changes };
  const count = 20_000;
  const draws = drawTokens(
    rowsOf(scores, count),
    Array.from({ length: count }, (_, i) => request(sampling, uniformAt(11, i))),
  );
  const expected = distribution(sampling);
  const counts = new Array<number>(scores.length).fill(0);
  for (const draw of draws) counts[draw!.tokenId]!++;
  const possible = expected.flatMap((p, id) => (p > 0 ? [id] : []));
  for (const [id, p] of expected.entries()) if (p === 0) expect(counts[id]).toBe(0);
  const chiSquare = possible.reduce(
    (sum, id) => sum + (counts[id]! - count * expected[id]!) ** 2 / (count * expected[id]!),
    0,
  );
  // At most 11 degrees of freedom: 1 in 10,000 is above 37.4.
  expect(chiSquare).toBeLessThan(37.4);
});

test.each(options)("log-probs are those of %s, of the temperature alone, and of the model", (_name, changes) => {
  const sampling = { ...everyone, ...changes };
  const expected = distribution(sampling);
  const model = softmax(scores);
  const sampler = softmax(scores.map((score) => score / (sampling.temperature ?? 1)));
  for (const uniform of [0, 0.3, 0.55, 0.8, 0.999]) {
    const [draw] = drawTokens(rowsOf(scores, 1), [request(sampling, uniform)]);
    expect(draw!.drawLogprob).toBeCloseTo(Math.log(expected[draw!.tokenId]!), 6);
    expect(draw!.samplerLogprob).toBeCloseTo(Math.log(sampler[draw!.tokenId]!), 6);
    expect(draw!.modelLogprob).toBeCloseTo(Math.log(model[draw!.tokenId]!), 6);
  }
});

test("temperature 0 takes the best token for certain, and the first of equals", () => {
  const greedy = { ...everyone, temperature: 0 };
  const [best, tied] = drawTokens(tensor(Float32Array.of(1, 3, 2, 5, 0, 5), [2, 3]), [
    request(greedy, 0.9),
    request(greedy, 0.9),
  ]);
  expect(best).toMatchObject({ tokenId: 1, samplerLogprob: 0, drawLogprob: 0 });
  expect(best!.modelLogprob).toBeCloseTo(3 - Math.log(Math.exp(1) + Math.exp(2) + Math.exp(3)), 6);
  expect(tied).toMatchObject({ tokenId: 0, samplerLogprob: 0 });
});

test("temperature 0 takes the best token after penalty and bias", () => {
  const [draw] = drawTokens(rowsOf(scores, 1), [
    request({ ...everyone, temperature: 0, repetitionPenalty: 2, logitBias: new Map([[8, -1]]) }, 0),
  ]);
  expect(draw!.tokenId).toBe(0);
});

test("rows with NaN or infinite scores draw nothing, and their neighbours draw as ever", () => {
  const rows = Float32Array.of(1, 2, Number.NaN, 0, 1, 2, 1, Number.POSITIVE_INFINITY, 2);
  const none = Number.NEGATIVE_INFINITY;
  for (const sampling of [everyone, { ...everyone, temperature: 0 }, { ...everyone, topK: 2 }]) {
    const requests = [0.1, 0.9, 0.1].map((uniform) => request(sampling, uniform));
    const draws = drawTokens(tensor(rows, [3, 3]), requests);
    expect([draws[0], draws[2]]).toEqual([null, null]);
    expect(draws[1]).toMatchObject({ tokenId: 2 });
    expect(drawTokens(tensor(Float32Array.of(none, none, none), [1, 3]), requests.slice(0, 1))).toEqual([null]);
  }
});

test("a row draws the same whatever options its neighbours have", () => {
  const alone = options.map(([, changes], i) => {
    const [draw] = drawTokens(rowsOf(scores, 1), [request({ ...everyone, ...changes }, uniformAt(5, i))]);
    return draw;
  });
  const requests = options.map(([, changes], i) => request({ ...everyone, ...changes }, uniformAt(5, i)));
  expect(drawTokens(rowsOf(scores, options.length), requests)).toEqual(alone);
});

test("the smallest number takes the first token with mass, and one next to 1 the last", () => {
  const row = Float32Array.of(Number.NEGATIVE_INFINITY, 0, 0, Number.NEGATIVE_INFINITY);
  const draws = drawTokens(
    rowsOf([...row], 2),
    [0, 1 - 2 ** -53].map((uniform) => request(everyone, uniform)),
  );
  expect(draws.map((draw) => draw!.tokenId)).toEqual([1, 2]);
});

test("top-k of 1 and a tiny top-p leave the best token", () => {
  for (const filter of [{ topK: 1 }, { topP: 1e-9 }, { minP: 1 }]) {
    const [draw] = drawTokens(rowsOf(scores, 1), [request({ ...everyone, ...filter }, 0.99)]);
    expect(draw).toMatchObject({ tokenId: 3, drawLogprob: 0 });
  }
});

test("the likeliest alternatives are the model's, best first, as many as each row asked for", () => {
  const draws = drawTokens(rowsOf(scores, 2), [
    { ...request({ ...everyone, temperature: 0.1 }, 0.5), numTopLogprobs: 2 },
    request(everyone, 0.5),
  ]);
  const model = softmax(scores).map(Math.log);
  expect(draws[0]!.topLogprobs.map(({ tokenId }) => tokenId)).toEqual([3, 8]);
  expect(draws[0]!.topLogprobs[1]!.logprob).toBeCloseTo(model[8]!, 5);
  expect(draws[1]!.topLogprobs).toEqual([]);
});

test("frequency and presence penalties count the tokens of the reply and not those of the prompt", () => {
  const [drawn] = drawTokens(rowsOf([0, 0, 0, 0], 1), [
    {
      ...request({ maxTokens: 1, frequencyPenalty: 0.5, presencePenalty: 0.25 }, 0.999),
      tokens: Int32Array.of(3, 3, 0, 1, 1),
      promptLength: 2,
    },
  ]);
  // Scores are -0.75, -1.25, 0, 0: the last token has the top share of the cumulative distribution.
  const total = Math.exp(-0.75) + Math.exp(-1.25) + 2;
  expect(drawn!.tokenId).toBe(3);
  expect(drawn!.drawLogprob).toBeCloseTo(-Math.log(total), 6);
  expect(drawn!.samplerLogprob).toBeCloseTo(-Math.log(4), 6);
});

test("tokens outside of a mask are never drawn, in any word of it", () => {
  const mask = new Int32Array(2);
  mask[1] = 1 << 3;
  const scores = Array.from({ length: 40 }, (_, id) => id);
  for (const uniform of [0, 0.5, 0.999]) {
    const [masked, free] = drawTokens(rowsOf(scores, 2), [
      { ...request({ maxTokens: 1 }, uniform), mask },
      request({ maxTokens: 1 }, uniform),
    ]);
    expect(masked).toMatchObject({ tokenId: 35, drawLogprob: 0 });
    expect(masked!.samplerLogprob).toBeLessThan(-4);
    expect(free!.drawLogprob).toBe(free!.samplerLogprob);
  }
});

function request(sampling: Sampling, uniform: number): DrawRequest {
  return { sampling, tokens: seen, promptLength: 0, mask: null, uniform, numTopLogprobs: 0 };
}

function rowsOf(row: readonly number[], count: number): Tensor {
  return tensor(Float32Array.from(row), [1, row.length]).expand(count, row.length);
}

/** The options spelled out, one token after the other. */
function distribution({
  temperature = 1,
  topK = 0,
  topP = 1,
  minP = 0,
  repetitionPenalty = 1,
  logitBias,
}: Sampling): number[] {
  const penalized = scores.map((score, id) => {
    if (!seen.includes(id)) return score;
    return score > 0 ? score / repetitionPenalty : score * repetitionPenalty;
  });
  const tempered = penalized.map((score, id) => (score + (logitBias?.get(id) ?? 0)) / temperature);
  const order = tempered.map((_, id) => id).sort((a, b) => tempered[b]! - tempered[a]!);
  const inTopK = order.slice(0, topK || order.length);
  const p = softmax(tempered.map((score, id) => (inTopK.includes(id) ? score : Number.NEGATIVE_INFINITY)));
  let mass = 0;
  const kept = inTopK.filter((id) => {
    const isIn = mass < topP && p[id]! >= minP * p[order[0]!]!;
    mass += p[id]!;
    return isIn;
  });
  return softmax(tempered.map((score, id) => (kept.includes(id) ? score : Number.NEGATIVE_INFINITY)));
}

function softmax(values: readonly number[]): number[] {
  const top = Math.max(...values);
  const masses = values.map((value) => Math.exp(value - top));
  const total = masses.reduce((sum, mass) => sum + mass, 0);
  return masses.map((mass) => mass / total);
}

const draws = fc.record({
  rows: fc.integer({ min: 1, max: 6 }),
  vocabulary: fc.integer({ min: 1, max: 300 }),
  spread: fc.constantFrom(0.01, 1, 30, 1000),
  temperature: fc.constantFrom(0, 0.3, 1, 1.7),
  seed: fc.integer({ min: 0, max: 1000 }),
});

test("a pass over scores draws what operators draw, with the same log-probabilities", () => {
  fc.assert(
    fc.property(draws, ({ rows, vocabulary, spread, temperature, seed }) => {
      tensorScope(() => {
        const generator = new Generator(seed);
        const scores_BV = randn([rows, vocabulary], { generator }).mul(spread);
        generator.dispose();
        const uniforms = Float64Array.from({ length: rows }, (_, row) => ((row * 7919 + seed * 104729) % 1000) / 1000);
        const pass = sampleRows(scores_BV, new Float64Array(rows).fill(temperature), uniforms);
        const of = { tokens: new Int32Array(), promptLength: 0, mask: null, numTopLogprobs: 0 };
        const drawn = draw(
          scores_BV,
          Array.from(uniforms, (uniform) => ({ ...of, sampling: { maxTokens: 1, temperature }, uniform })),
        );
        for (let row = 0; row < rows; row++) {
          expect(pass.tokens[row]).toBe(drawn.tokenIds[row]);
          expect(pass.samplerLogprobs[row]).toBeCloseTo(drawn.samplerLogprobs[row]!, 10);
          expect(pass.modelLogprobs[row]).toBeCloseTo(drawn.modelLogprobs[row]!, 10);
        }
      });
    }),
    { numRuns: 200, seed: 1 },
  );
});
