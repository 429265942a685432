/** Models with linear attention carry a state from token to token: whatever their sequences go through, it is that of all tokens before. */
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../models/causal-lm/load-causal-lm.ts";
import { packedLayout } from "../../models/causal-lm/token-layout.ts";
import { inferenceMode } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Generation } from "../generate.ts";
import type { EngineOptions } from "./engine-options.ts";
import { LocalEngine } from "./local-engine.ts";

const fixtures = fileURLToPath(new URL("../../../fixtures/hf-tiny", import.meta.url));

/** What sequences go through. Other shapes of a family go through the first alone. */
const hardships: [string, EngineOptions][] = [
  ["join and leave at any step", {}],
  ["wait for a place", { maxRunning: 3 }],
  ["take blocks from each other and start over", { maxRunning: 6, numBlocks: 18 }],
  ["are cut in pieces", { maxStepTokens: 7 }],
  ["are computed token by token", { isSteady: true }],
];

describe.each(["qwen3-next", "qwen3-next-2", "qwen3-5-text", "qwen3-5-text-2"])("%s", (name) => {
  const isOtherShape = name.endsWith("-2");
  let model: CausalLm;
  beforeAll(() => {
    model = loadCausalLm(join(fixtures, name));
  });
  afterAll(() => model.dispose());

  /** Requests of many lengths on an engine of its own: their tokens must have the log-probs that the whole sequences give them. */
  async function expectParity(
    options: EngineOptions,
    meanwhile: (engine: LocalEngine) => Promise<void> = async () => {},
  ) {
    const engine = new LocalEngine(model, { blockSize: 4, contextLength: 64, ...options });
    const prompts = Array.from({ length: 6 }, (_, i) => somePrompt(model, 1 + 5 * i, i % 3));
    const made = prompts.flatMap((promptIds, i) =>
      [0, 1].map(async (sample) => {
        for (let wait = 0; wait < i; wait++) await nextTurn();
        const sampling = { maxTokens: 2 + ((7 * i + 5 * sample) % 20), seed: 10 * i + sample };
        return { promptIds, generation: await engine.generate({ promptIds, sampling }) };
      }),
    );
    await meanwhile(engine);
    for (const { promptIds, generation } of await Promise.all(made)) expectWhole(model, promptIds, generation);
    const { cachedTokens } = engine.status().counters;
    await engine.close();
    return cachedTokens;
  }

  test.each(isOtherShape ? hardships.slice(0, 1) : hardships)(
    "sequences that %s have the log-probs of the whole",
    async (_what, options) => {
      // Samples of one prompt compute it once.
      expect(await expectParity(options)).toBeGreaterThan(0);
    },
  );

  test.skipIf(isOtherShape)(
    "sequences that lose their cache while the engine sleeps, and at new weights, have the log-probs of the whole",
    async () => {
      let numBefore = 0;
      await expectParity({ reprefills: true }, async (engine) => {
        for (let i = 0; i < 6; i++) await nextTurn();
        engine.sleep();
        for (let i = 0; i < 6; i++) await nextTurn();
        numBefore = engine.status().counters.generatedTokens;
        engine.updateWeights(1, () => {});
      });
      expect(numBefore).toBeGreaterThan(0);
    },
  );
});

describe("of one model", () => {
  const model = loadCausalLm(join(fixtures, "qwen3-5-text"));
  const prompt = somePrompt(model, 21, 1);

  test("what a request draws does not depend on what else runs, to the bit", async () => {
    const request = { promptIds: prompt, sampling: { maxTokens: 20, seed: 3 } };
    const options = { blockSize: 4, contextLength: 64, isSteady: true };
    const alone = new LocalEngine(model, options);
    const crowded = new LocalEngine(model, { ...options, maxRunning: 5, numBlocks: 20, maxStepTokens: 9 });
    const others = Array.from({ length: 8 }, (_, i) => ({
      promptIds: somePrompt(model, 2 + 3 * i, 1),
      sampling: { maxTokens: 25, seed: i },
    }));
    const crowd = others.map(crowded.generate);
    const [one, same] = [await alone.generate(request), await crowded.generate(request)];
    await Promise.all(crowd);
    expect(same.tokenIds).toEqual(one.tokenIds);
    expect(same.samplerLogprobs).toEqual(one.samplerLogprobs);
    await alone.close();
    await crowded.close();
  });

  test("a turn of a session, and a prompt that came before, pay for their new tokens only", async () => {
    const engine = new LocalEngine(model, { blockSize: 4, contextLength: 64 });
    const cost = async (promptIds: readonly number[], sessionId?: string) => {
      const before = engine.status().counters.prefilledTokens;
      const sampling = { maxTokens: 5, seed: 1 };
      const generation = await engine.generate({ promptIds, sampling, ...(sessionId !== undefined && { sessionId }) });
      expectWhole(model, promptIds, generation);
      return { generation, numTokens: engine.status().counters.prefilledTokens - before };
    };
    const first = await cost(prompt, "a");
    const second = await cost([...prompt, ...first.generation.tokenIds, 5, 6], "a");
    const again = await cost(prompt);
    // The last token of the reply, and two from outside; the token after five full blocks.
    expect([first.numTokens, second.numTokens, again.numTokens]).toEqual([21, 3, 1]);
    await engine.close();
  });

  test("running sequences go on with the state that older weights left, and say so; prompts start anew", async () => {
    const engine = new LocalEngine(model, { blockSize: 4, contextLength: 64 });
    const sampling = { maxTokens: 12, seed: 1 };
    const onTokens = ({ tokenIds }: { readonly tokenIds: Int32Array }) => {
      if (tokenIds.length === 1 && engine.status().counters.generatedTokens === 5) engine.updateWeights(1, () => {});
    };
    const running = await engine.generate({ promptIds: prompt, sampling, onTokens });
    expectWhole(model, prompt, running);
    expect([...new Set(running.versions)]).toEqual([0, 1]);
    expect([...new Set(running.cacheVersions)]).toEqual([0]);
    const before = engine.status().counters.prefilledTokens;
    await engine.generate({ promptIds: prompt, sampling });
    expect(engine.status().counters.prefilledTokens - before).toBe(21);
    await engine.close();
  });

  test("an engine frees its states with its cache", async () => {
    const { liveBytes } = memoryStats();
    const engine = new LocalEngine(model, { blockSize: 4, contextLength: 64, maxRunning: 4 });
    await engine.generate({ promptIds: prompt, sampling: { maxTokens: 3 } });
    const { linearAttention } = model.config.features;
    const { numValueHeads, keySize, valueSize, layers } = linearAttention!;
    const numMemories = layers.filter((isLinear) => isLinear).length * numValueHeads * keySize * valueSize;
    // Four places, one spare, two rows each, and the two that belong to nobody.
    expect(memoryStats().liveBytes - liveBytes).toBeGreaterThan(12 * 4 * numMemories);
    engine.sleep();
    expect(memoryStats().liveBytes).toBe(liveBytes);
    await engine.close();
  });
});

function somePrompt({ config }: CausalLm, length: number, kind: number): number[] {
  return Array.from({ length }, (_, i) => (i < 9 ? i + 1 : (i * 7 + kind * 13) % config.vocabSize));
}

/** The log-probs of a reply are those that a forward pass over the whole sequence gives. */
function expectWhole(
  model: CausalLm,
  promptIds: readonly number[],
  { tokenIds, modelLogprobs, finish }: Generation,
): void {
  expect(finish.kind).toBe("length");
  const ids = [...promptIds, ...tokenIds];
  const expected = tensorScope(() =>
    inferenceMode(() => {
      const ids_S = tensor(Int32Array.from(ids), [ids.length], { dtype: "int64" });
      const logprobs_SV = model.logits(model.forward(ids_S, packedLayout([ids.length]))).logSoftmax(-1);
      const next = ids_S.narrow(0, 1, ids.length - 1).unsqueeze(1);
      return logprobs_SV
        .narrow(0, 0, ids.length - 1)
        .gather(1, next)
        .flatten()
        .toFloat32Array();
    }),
  );
  const gaps = modelLogprobs.map((logprob, i) => Math.abs(logprob - expected[promptIds.length - 1 + i]!));
  expect(Math.max(...gaps)).toBeLessThan(1e-4);
}
