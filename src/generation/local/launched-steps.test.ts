/**
 * Steps that are launched before the one before them is read, as on a GPU: here by a runner that computes them on the CPU at
 * once, from what it drew itself. Everything must be as if every step were read before the next.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { byteTokenizerFiles } from "../../chat/tokenizer/byte-tokenizer.ts";
import { createTokenizer } from "../../chat/tokenizer/tokenizer.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { noGrad } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import type { Constraint, GenerateRequest } from "../generate.ts";
import { isDrawn } from "./drawn-rows.ts";
import type { EngineOptions } from "./engine-options.ts";
import { LocalEngine } from "./local-engine.ts";
import { ModelRunner } from "./model-runner.ts";
import { launchDraws } from "./sampler.ts";
import type { Piece } from "./scheduler.ts";
import { uniformAt } from "./uniform.ts";

const fake = { canLaunch: true, numLaunched: 0, numAhead: 0, numMasked: 0, failAt: 0 };
/** What each runner drew last. */
const drawn = new WeakMap<ModelRunner, readonly number[]>();

vi.spyOn(ModelRunner.prototype, "canLaunch", "get").mockImplementation(() => fake.canLaunch);
vi.spyOn(ModelRunner.prototype, "launch").mockImplementation(function (this: ModelRunner, sequences, from) {
  const isFailing = ++fake.numLaunched === fake.failAt;
  if (from !== null) fake.numAhead++;
  const positions = sequences.map(({ numComputed }) => numComputed + (from === null ? 0 : 1));
  const pieces = sequences.map(({ blocks, stateSlot, stateSource }, row) => {
    const numComputed = positions[row]!;
    const state = { stateSlot, stateSource: from === null ? stateSource : null, stateMark: null };
    const tokens = new Int32Array(numComputed + 1);
    tokens[numComputed] = from === null ? sequences[row]!.tokenAt(numComputed) : drawn.get(this)![from[row]!]!;
    return { sequence: { blocks, tokens, numComputed, ...state }, numTokens: 1, isLast: true };
  });
  const compute = (masks: readonly (Int32Array | null)[]) => {
    const requests = sequences.map(({ sampling, seed }, row) => ({
      sampling,
      tokens: new Int32Array(),
      promptLength: 0,
      mask: masks[row] ?? null,
      uniform: uniformAt(seed, positions[row]! + 1),
      numTopLogprobs: 0,
    }));
    const results = this.run(pieces as unknown as Piece[], (scores_BV) => launchDraws(scores_BV!, requests)());
    const ids = Array.from(results.tokenIds, (tokenId, row) => (isDrawn(results, row) ? tokenId : 0));
    drawn.set(this, ids);
    return results;
  };
  let draws = compute([]);
  const draw = (masks: readonly (Int32Array | null)[]) => {
    fake.numMasked++;
    draws = compute(masks);
  };
  const read = () => {
    if (isFailing) throw new Error("device lost");
    return draws;
  };
  return { sequences, draw, read };
});

const models = { attention: tinyModel(tinyConfig("qwen3")), states: tinyModel(tinyConfig("qwen3_next")) };
let model = models.attention;
const engines: LocalEngine[] = [];
const prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];

function makeEngine(options: EngineOptions & { readonly version?: number } = {}): LocalEngine {
  const engine = new LocalEngine(model, { blockSize: 4, ...options });
  engines.push(engine);
  return engine;
}

beforeEach(() => {
  Object.assign(fake, { canLaunch: true, numLaunched: 0, numAhead: 0, numMasked: 0, failAt: 0 });
});

afterEach(async () => {
  for (const engine of engines.splice(0)) {
    await engine.abortAll();
    engine.updateWeights(1_000, () => {});
    expect(engine.status()).toMatchObject({ cacheUsage: 0, queuedRequests: 0, runningRequests: 0 });
    await engine.close();
  }
});

/** The same requests, once with steps launched ahead and once with every step read first. */
async function both(requests: readonly GenerateRequest[], options: EngineOptions = {}) {
  const ahead = await Promise.all(requests.map(makeEngine(options).generate));
  fake.canLaunch = false;
  const plain = await Promise.all(requests.map(makeEngine(options).generate));
  return { ahead, plain };
}

describe.each(["attention", "states"] as const)("of a model with %s", (kind) => {
  // Prompts that are cut elsewhere are computed in other chunks.
  const digits = kind === "states" ? 4 : 5;
  beforeEach(() => {
    model = models[kind];
  });

  test.each<[string, EngineOptions]>([
    ["all run", {}],
    ["most wait for a place", { maxRunning: 3 }],
    ["they take blocks from each other", { maxRunning: 4, contextLength: 32, numBlocks: 14 }],
    ["prompts are cut", { maxStepTokens: 6 }],
  ])("replies of many lengths are what they are without, when %s", async (_name, options) => {
    const requests = Array.from({ length: 12 }, (_, i) => ({
      promptIds: [...prompt.slice(0, 1 + (i % 5)), i],
      sampling: {
        maxTokens: 1 + ((5 * i) % 13),
        seed: i,
        temperature: i % 4 === 0 ? 0 : 0.5 + i / 8,
        stopIds: [7, 11],
      },
    }));
    const { ahead, plain } = await both(requests, options);
    ahead.forEach((reply, i) => {
      expect([...reply.tokenIds]).toEqual([...plain[i]!.tokenIds]);
      expect(reply.finish).toEqual(plain[i]!.finish);
      reply.samplerLogprobs.forEach((value, t) => {
        expect(value).toBeCloseTo(plain[i]!.samplerLogprobs[t]!, digits);
      });
      reply.modelLogprobs.forEach((value, t) => {
        expect(value).toBeCloseTo(plain[i]!.modelLogprobs[t]!, digits);
      });
    });
    expect(ahead.some(({ finish }) => finish.kind === "stop")).toBe(true);
    expect(fake.numAhead).toBeGreaterThan(3);
  });

  test("replies with a constraint are launched ahead among free ones, and drawn when their masks are there", async () => {
    const tokenizer = createTokenizer(byteTokenizerFiles(), "bytes");
    const { stopIds } = tokenizer;
    const wordy = tinyModel(tinyConfig("qwen3", { vocabSize: 264 }));
    const schema = { type: "object", properties: { a: { type: "string", maxLength: 5 }, b: { enum: [1, 22] } } };
    const constraints: readonly (Constraint | undefined)[] = [
      { kind: "json-schema", schema: { ...schema, required: ["a", "b"] } },
      undefined,
      { kind: "choice", choices: ["sunny", "sun", "rain"] },
      { kind: "regex", pattern: "[a-c]{3}\\d+" },
    ];
    const requests = Array.from({ length: 8 }, (_, seed) => {
      const constraint = constraints[seed % 4];
      const sampling = { maxTokens: 40, temperature: seed < 4 ? 1 : 0.5 * (seed % 3), seed, stopIds };
      return { promptIds: tokenizer.encode("Hi"), sampling: constraint ? { ...sampling, constraint } : sampling };
    });
    const run = async () => {
      const engine = new LocalEngine(wordy, { tokenizer, contextLength: 64, maxRunning: 8 });
      const replies = await Promise.all(requests.map(engine.generate));
      const { steps } = engine.status().counters;
      await engine.close();
      return { replies, steps };
    };
    const ahead = await run();
    expect(fake.numMasked).toBeGreaterThan(10);
    expect(fake.numAhead).toBeGreaterThan(10);
    fake.canLaunch = false;
    const plain = await run();
    expect(ahead.steps).toBeLessThanOrEqual(plain.steps);
    ahead.replies.forEach((reply, i) => {
      expect([...reply.tokenIds]).toEqual([...plain.replies[i]!.tokenIds]);
      reply.drawLogprobs.forEach((value, t) => {
        expect(value).toBeCloseTo(plain.replies[i]!.drawLogprobs[t]!, 5);
      });
      if (i < 4 && i !== 1) expect(reply.drawLogprobs).not.toEqual(reply.samplerLogprobs);
    });
    wordy.dispose();
  });

  test("a reply of n tokens takes n steps, of which all but the first two are launched ahead", async () => {
    const engine = makeEngine();
    await engine.generate({ promptIds: prompt, sampling: { maxTokens: 9 } });
    expect(engine.status().counters.steps).toBe(9);
    expect(fake).toMatchObject({ numLaunched: 8, numAhead: 7 });
  });

  test("requests with filters, and those that want the best tokens, are read step by step", async () => {
    const engine = makeEngine();
    await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3, topK: 4 } });
    await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3 }, numTopLogprobs: 2 });
    expect(fake.numLaunched).toBe(0);
  });

  test("new weights draw the very next token: what was launched with the old ones is dropped", async () => {
    const engine = makeEngine({ version: 4 });
    let numSeen = 0;
    const request = { promptIds: prompt, sampling: { maxTokens: 7, seed: 2 } };
    const changing = {
      ...request,
      onTokens: () => [3, 5].includes(++numSeen) && engine.updateWeights(numSeen + 4, () => {}),
    };
    const [first, second] = await Promise.all([engine.generate(changing), engine.generate(request)]);
    expect([...first.versions]).toEqual([4, 4, 4, 7, 7, 9, 9]);
    expect([...second.versions]).toEqual([...first.versions]);
    // The weights were the same, so the tokens are those of a reply without a change.
    fake.canLaunch = false;
    expect([...first.tokenIds]).toEqual([...(await makeEngine().generate(request)).tokenIds]);
  });

  test("weights that are written between two tokens are those that the second is drawn with", async () => {
    const own = tinyModel(tinyConfig("llama"));
    const engine = new LocalEngine(own);
    let numSeen = 0;
    const { tokenIds, versions } = await engine.generate({
      promptIds: prompt,
      sampling: { maxTokens: 8, temperature: 0 },
      onTokens: () => {
        if (++numSeen !== 4) return;
        // An output matrix with one row above all others draws that token only, or the one below all others.
        engine.updateWeights(1, ({ norm, head }) => {
          noGrad(() => {
            norm.weight.zero_();
            norm.weight.select(0, 0).add_(1);
            head.zero_();
            head
              .select(1, 0)
              .copy_(tensor(Array.from({ length: 29 }, (_, id) => (id === 17 ? 1 : id === 18 ? -1 : 0))));
          });
        });
      },
    });
    expect([...versions]).toEqual([0, 0, 0, 0, 1, 1, 1, 1]);
    expect([...tokenIds.slice(4)].every((id) => id === 17 || id === 18)).toBe(true);
    await engine.close();
    own.dispose();
  });

  test("while prompts wait, a prompt is read after the next is launched, with the version that computed it", async () => {
    const engine = makeEngine({ maxStepTokens: prompt.length });
    const order: string[] = [];
    const replies = await Promise.all(
      ["a", "b", "c"].map((name, i) =>
        engine.generate({
          promptIds: [i, ...prompt.slice(1)],
          sampling: { maxTokens: 2, seed: i },
          onTokens: () => {
            order.push(`${name} after ${engine.status().counters.steps}`);
            if (order.length === 1) engine.updateWeights(1, () => order.push("new weights"));
          },
        }),
      ),
    );
    // The second prompt was on its way: what it drew is delivered before the weights it was computed with are gone.
    expect(order.slice(0, 3)).toEqual(["a after 2", "b after 2", "new weights"]);
    expect(replies.map(({ versions }) => [...versions])).toEqual([
      [0, 1],
      [0, 1],
      [1, 1],
    ]);
  });

  test("an abort keeps the tokens so far and drops the one on its way; a session goes on from there", async () => {
    const engine = makeEngine();
    const sampling = { maxTokens: 12, seed: 5 };
    const whole = await makeEngine().generate({ promptIds: prompt, sampling });
    const controller = new AbortController();
    let numSeen = 0;
    const [part, other] = await Promise.all([
      engine.generate({
        promptIds: prompt,
        sampling,
        sessionId: "a",
        signal: controller.signal,
        onTokens: () => ++numSeen === 5 && controller.abort(),
      }),
      engine.generate({ promptIds: prompt, sampling }),
    ]);
    expect([...part.tokenIds]).toEqual([...whole.tokenIds.slice(0, 5)]);
    expect([...other.tokenIds]).toEqual([...whole.tokenIds]);
    const rest = await engine.generate({
      promptIds: [...prompt, ...part.tokenIds],
      sampling: { ...sampling, maxTokens: 7 },
      sessionId: "a",
    });
    expect([...rest.tokenIds]).toEqual([...whole.tokenIds.slice(5)]);
  });

  test("a pause holds what is on its way, and it is read when the engine goes on", async () => {
    const engine = makeEngine();
    const request = { promptIds: prompt, sampling: { maxTokens: 10, seed: 3 } };
    const expected = await makeEngine().generate(request);
    let numSeen = 0;
    const reply = engine.generate({ ...request, onTokens: () => ++numSeen === 4 && void engine.pause() });
    await vi.waitFor(() => expect(numSeen).toBe(4));
    for (let i = 0; i < 10; i++) await nextTurn();
    expect(numSeen).toBe(4);
    engine.resume();
    expect([...(await reply).tokenIds]).toEqual([...expected.tokenIds]);
  });

  test("a launched step that fails takes its requests with it, and the engine goes on", async () => {
    const engine = makeEngine();
    const request = { promptIds: prompt, sampling: { maxTokens: 6 } };
    fake.failAt = 3;
    const replies = await Promise.all([engine.generate(request), engine.generate(request)]);
    expect(replies.map(({ finish }) => finish.kind)).toEqual(["failed", "failed"]);
    // One token came from the prompt, two from launched steps; the third of those was never read.
    expect(replies[0]!.tokenIds).toHaveLength(3);
    expect((await engine.generate(request)).finish.kind).toBe("length");
  });

  test("scores that are no numbers fail the request, and the step that was launched from them is dropped", async () => {
    const own = tinyModel(tinyConfig("qwen2"));
    const engine = new LocalEngine(own);
    let numSeen = 0;
    const reply = await engine.generate({
      promptIds: prompt,
      sampling: { maxTokens: 6 },
      onTokens: () => {
        if (++numSeen === 2) engine.updateWeights(1, ({ norm }) => noGrad(() => void norm.weight.mul_(Number.NaN)));
      },
    });
    expect(reply.finish).toMatchObject({ kind: "failed", error: { code: "NON_FINITE" } });
    expect(reply.tokenIds).toHaveLength(2);
    await engine.close();
    own.dispose();
  });
});
