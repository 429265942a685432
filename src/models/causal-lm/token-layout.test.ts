import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { gradients, noGrad } from "../../torch/autograd.ts";
import { ones, randn, tensor, zeros } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLm } from "./causal-lm.ts";
import { familyNames } from "./families/table.ts";
import { packedLayout, paddedLayout } from "./token-layout.ts";

function ids(rows: readonly (readonly number[])[]): Tensor {
  return tensor(Int32Array.from(rows.flat()), [rows.flat().length], { dtype: "int64" });
}

/** The hidden states of each row's own tokens, by three layouts. */
function byLayout(model: CausalLm, rows: readonly (readonly number[])[]) {
  const lengths = rows.map((row) => row.length);
  const T = Math.max(...lengths);
  const rectangle = rows.map((row) => [...row, ...new Array<number>(T - row.length).fill(3)]);
  const padded = model.forward(ids(rectangle), paddedLayout(rows.length, T));
  const packed = model.forward(ids(rows), packedLayout(lengths));
  let start = 0;
  return rows.map((row, r) => {
    const from = start;
    start += row.length;
    return {
      single: model.forward(ids([row]), paddedLayout(1, row.length)),
      padded: padded.narrow(0, r * T, row.length),
      packed: packed.narrow(0, from, row.length),
    };
  });
}

function maxDifference(a: Tensor, b: Tensor): number {
  return a.sub(b).abs().max().item();
}

const someRows = fc.array(fc.array(fc.nat(28), { minLength: 1, maxLength: 9 }), { minLength: 1, maxLength: 4 });

describe.each([...familyNames])("%s", (family) => {
  test.each([null, 3])("packed, padded and single rows agree, with window %s", (slidingWindow) => {
    const model = tinyModel(tinyConfig(family, { features: { slidingWindow } }));
    fc.assert(
      fc.property(someRows, (rows) => {
        tensorScope(() =>
          noGrad(() => {
            for (const { single, padded, packed } of byLayout(model, rows)) {
              expect(maxDifference(padded, single)).toBeLessThan(1e-4);
              expect(maxDifference(packed, single)).toBeLessThan(1e-4);
            }
          }),
        );
      }),
      { numRuns: 10, seed: 1 },
    );
    model.dispose();
  });
});

test("gradients of packed rows are the sum of those of single rows", () => {
  const model = tinyModel(tinyConfig("qwen3"));
  tensorScope(() => {
    const rows = [[1, 2, 3, 4, 5], [6], [7, 8, 9]];
    const direction = randn([9, 16], { generator: new Generator(1) });
    const parameters = model.parameters();
    const packed = gradients([model.forward(ids(rows), packedLayout([5, 1, 3]))], parameters, {
      gradOutputs: [direction],
    });
    let start = 0;
    const singles = rows.map((row) => {
      const part = direction.narrow(0, start, row.length);
      start += row.length;
      return gradients([model.forward(ids([row]), packedLayout([row.length]))], parameters, { gradOutputs: [part] });
    });
    packed.forEach((grad, i) => {
      const sum = singles.reduce<Tensor | null>(
        (total, grads) => (total === null ? grads[i]! : total.add(grads[i]!)),
        null,
      );
      expect(maxDifference(grad!, sum!)).toBeLessThan(1e-3);
    });
  });
  model.dispose();
});

describe("attention of one layer", () => {
  const [H, G, K] = [4, 2, 6];
  const scale = 1 / Math.sqrt(K);

  /** softmax over exactly the keys that `sees` allows, written out number by number. */
  function explicit(
    q: number[],
    k: number[],
    v: number[],
    T: number,
    sees: (query: number, key: number) => boolean,
  ): number[] {
    const out: number[] = [];
    for (let t = 0; t < T; t++) {
      for (let h = 0; h < H; h++) {
        const g = Math.floor(h / (H / G));
        const keys = Array.from({ length: T }, (_, c) => c).filter((c) => sees(t, c));
        const scores = keys.map((c) => {
          const products = Array.from({ length: K }, (_, i) => q[(t * H + h) * K + i]! * k[(c * G + g) * K + i]!);
          return Math.exp(scale * products.reduce((sum, product) => sum + product, 0));
        });
        const total = scores.reduce((sum, score) => sum + score, 0);
        for (let i = 0; i < K; i++) {
          out.push(keys.reduce((sum, c, n) => sum + (scores[n]! / total) * v[(c * G + g) * K + i]!, 0));
        }
      }
    }
    return out;
  }

  test.each([null, 1, 2, 3, 7, 8, 100])("window %s sees the token itself and what lies within it", (window) => {
    tensorScope(() => {
      const T = 8;
      const generator = new Generator(9);
      const q_SHK = randn([T, H, K], { generator });
      const k_SGK = randn([T, G, K], { generator });
      const v_SGK = randn([T, G, K], { generator });
      const sees = (query: number, key: number) => key <= query && (window === null || query - key < window);
      const unturned = { cos_SK: ones([T, K / 2]), sin_SK: zeros([T, K / 2]) };
      const expected = explicit(q_SHK.toArray(), k_SGK.toArray(), v_SGK.toArray(), T, sees);
      for (const layout of [paddedLayout(1, T), packedLayout([T])]) {
        const got = layout
          .attend(0, { q_SHK, k_SGK, v_SGK }, unturned, { window, scale: null, softCap: null, sinks_H: null })
          .toArray();
        got.forEach((value, i) => void expect(value).toBeCloseTo(expected[i]!, 5));
      }
    });
  });
});

test.each([[[]], [[3, 0]], [[2, 1.5]], [[-1]]])("packed lengths %j are refused", (lengths) => {
  expect(() => packedLayout(lengths)).toThrow(`got lengths [${lengths.join(", ")}]`);
});
