import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { inferenceMode, noGrad } from "../../torch/autograd.ts";
import { full, tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { KvCache } from "./kv-cache.ts";
import { packedLayout } from "./token-layout.ts";

const place = { dtype: "float32", device: "cpu" } as const;

function ids(rows: readonly (readonly number[])[]): Tensor {
  return tensor(Int32Array.from(rows.flat()), [rows.flat().length], { dtype: "int64" });
}

describe.each([null, 3])("with window %s", (slidingWindow) => {
  test("steps from ragged lengths give what each whole row gives", () => {
    const model = tinyModel(tinyConfig("qwen3", { features: { slidingWindow } }));
    const rows = fc.array(
      fc.record({ tokens: fc.array(fc.nat(28), { minLength: 9, maxLength: 9 }), kept: fc.nat(4) }),
      {
        minLength: 1,
        maxLength: 3,
      },
    );
    fc.assert(
      fc.property(rows, fc.integer({ min: 1, max: 3 }), (cases, stepTokens) => {
        const cache = new KvCache(model.config, cases.length, 9, place);
        tensorScope(() =>
          inferenceMode(() => {
            // Four tokens in every row, of which each keeps its own number and continues from there.
            model.forward(ids(cases.map(({ tokens }) => tokens.slice(0, 4))), cache.append(4));
            cases.forEach(({ kept }, row) => void cache.truncate(row, kept));
            for (let step = 0; step < 2; step++) {
              const from = (kept: number) => kept + step * stepTokens;
              const next = cases.map(({ tokens, kept }) => tokens.slice(from(kept), from(kept) + stepTokens));
              const got = model.forward(ids(next), cache.append(stepTokens));
              cases.forEach(({ tokens, kept }, row) => {
                const seen = from(kept) + stepTokens;
                const whole = model.forward(ids([tokens.slice(0, seen)]), packedLayout([seen]));
                const expected = whole.narrow(0, from(kept), stepTokens);
                const difference = got
                  .narrow(0, row * stepTokens, stepTokens)
                  .sub(expected)
                  .abs()
                  .max()
                  .item();
                expect(difference).toBeLessThan(1e-4);
              });
            }
            expect(cache.lengths).toEqual(cases.map(({ kept }) => kept + 2 * stepTokens));
          }),
        );
        cache.dispose();
      }),
      { numRuns: 20, seed: 1 },
    );
    model.dispose();
  });
});

test("memory that held NaN does not reach a row that is shorter than the longest", () => {
  const model = tinyModel(tinyConfig("llama"));
  const before = full([2, 4, 2, 6], Number.NaN);
  const garbage = Array.from({ length: 16 }, () => before.clone());
  for (const held of [before, ...garbage]) held.dispose();
  const cache = new KvCache(model.config, 2, 4, place);
  tensorScope(() =>
    inferenceMode(() => {
      model.forward(ids([[1], [1]]), cache.append(1));
      cache.truncate(1, 0);
      const hidden_SD = model.forward(ids([[2], [1]]), cache.append(1));
      expect(hidden_SD.isNaN().any().item()).toBe(0);
    }),
  );
  cache.dispose();
  model.dispose();
});

test("a full cache says how much it holds and how much is needed", () => {
  const cache = new KvCache(tinyConfig("llama"), 2, 5, place);
  tensorScope(() => {
    cache.append(3);
    expect(() => cache.append(3)).toThrow("holds 5 tokens a row, 6 are needed");
    expect(cache.lengths).toEqual([3, 3]);
  });
  cache.dispose();
});

test("append and truncate take counts and rows that exist, and change nothing else", () => {
  const cache = new KvCache(tinyConfig("llama"), 2, 5, place);
  tensorScope(() => {
    cache.append(3);
    for (const T of [0, -1, 0.5, Number.NaN]) expect(() => cache.append(T)).toThrow(`at least 1: got ${T}`);
    const wrong: [number, number][] = [
      [2, 1],
      [-1, 1],
      [0.5, 1],
      [0, -1],
      [0, 1.5],
      [0, Number.NaN],
    ];
    for (const [row, length] of wrong) {
      expect(() => cache.truncate(row, length)).toThrow(`a row from 0 to 1 and a length of at least 0: got ${row} and`);
    }
    expect(cache.lengths).toEqual([3, 3]);
    cache.truncate(1, 2);
    cache.truncate(0, 9);
    expect(cache.lengths).toEqual([3, 2]);
  });
  cache.dispose();
});

test("a cache frees its memory", () => {
  const { liveBytes } = memoryStats();
  const cache = noGrad(() => new KvCache(tinyConfig("llama"), 2, 5, place));
  expect(memoryStats().liveBytes).toBeGreaterThan(liveBytes);
  cache.dispose();
  expect(memoryStats().liveBytes).toBe(liveBytes);
});
