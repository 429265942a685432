import fc from "fast-check";
import { expect, test } from "vitest";
import { gradients } from "./autograd.ts";
import { cat, ones, randn, tensor, zeros } from "./create.ts";
import { rmsNorm, rotate } from "./fused.ts";
import { Generator } from "./random.ts";
import { residualNorm } from "./residual-norm.ts";
import { areRows, sampleRows, storeRows_ } from "./row-passes.ts";
import { tensorScope } from "./scope.ts";
import type { Tensor } from "./tensor.ts";

const shape = fc.record({
  tokens: fc.integer({ min: 1, max: 40 }),
  heads: fc.integer({ min: 1, max: 5 }),
  width: fc.integer({ min: 1, max: 40 }).map((half) => 2 * half),
  hasDelta: fc.boolean(),
  seed: fc.integer({ min: 0, max: 1000 }),
});

/** What operators one after another give, with their gradients. */
function composedNorm(x: Tensor, delta: Tensor | null, weight: Tensor, eps: number) {
  const sum = delta === null ? x : x.add(delta);
  return { sum, normed: sum.mul(sum.square().mean(-1, true).add(eps).rsqrt()).mul(weight) };
}

/** Results and gradients of a norm whose sum and result both go on. */
function runNorm(
  norm: typeof composedNorm,
  { tokens, width, hasDelta, seed }: { tokens: number; width: number; hasDelta: boolean; seed: number },
) {
  const generator = new Generator(seed);
  const next = () => randn([tokens, width], { generator });
  const [x, delta, weight] = [next(), hasDelta ? next() : null, randn([width], { generator })];
  const leaves = [x, ...(delta === null ? [] : [delta]), weight];
  for (const leaf of leaves) leaf.requiresGrad = true;
  const { sum, normed } = norm(x, delta, weight, 1e-6);
  sum.mul(next()).sum().add(normed.mul(next()).sum()).backward();
  generator.dispose();
  return {
    values: [sum, normed].map((one) => one.detach().toArray()),
    gradients: leaves.map((leaf) => leaf.grad!.toArray()),
  };
}

test("a norm of rows and its sum are to the bit what operators give, and gradients follow", () => {
  fc.assert(
    fc.property(shape, (of) => {
      const [pass, composed] = tensorScope(() => [runNorm(residualNorm, of), runNorm(composedNorm, of)]);
      expect(pass!.values).toEqual(composed!.values);
      for (const [i, gradient] of pass!.gradients.entries()) expectClose(gradient, composed!.gradients[i]!);
    }),
    { numRuns: 40, seed: 1 },
  );
});

test("heads within wider rows are normed and turned where they lie, to the bit as operators do", () => {
  fc.assert(
    fc.property(shape, ({ tokens, heads, width, seed }) => {
      tensorScope(() => {
        const generator = new Generator(seed);
        const [, x_SHK, rest] = randn([tokens, heads + 3, width], { generator }).splitSizes([1, heads, 2], 1);
        const weight = randn([width], { generator });
        const [cos_SK, sin_SK] = [randn([tokens, width / 2], { generator }), randn([tokens, width / 2], { generator })];
        expect(rmsNorm(x_SHK!, weight, 1e-6).toArray()).toEqual(
          composedNorm(x_SHK!, null, weight, 1e-6).normed.toArray(),
        );
        const [a, b] = x_SHK!.chunk(2, -1) as [Tensor, Tensor];
        const [cos, sin] = [cos_SK.unsqueeze(1), sin_SK.unsqueeze(1)];
        const turned = cat([a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))], -1);
        expect(rotate(x_SHK!, cos_SK, sin_SK).toArray()).toEqual(turned.toArray());
        expect(areRows([x_SHK!, rest!, weight])).toBe(true);
        generator.dispose();
      });
    }),
    { numRuns: 30, seed: 1 },
  );
});

test("the gradient of turned heads is turned back", () => {
  const x_SHK = tensor([[[3, 4]]]);
  x_SHK.requiresGrad = true;
  rotate(x_SHK, tensor([[0]]), tensor([[1]]))
    .select(2, 0)
    .sum()
    .backward();
  // (a, b) becomes (-b, a).
  expect(x_SHK.grad!.toArray()).toEqual([0, -1]);
});

test("rows are stored in their slots, also from within wider ones", () => {
  const into = zeros([3, 1, 2]);
  const x_SGK = tensor([
    [
      [1, 2],
      [9, 9],
    ],
    [
      [3, 4],
      [9, 9],
    ],
  ]).narrow(1, 0, 1);
  storeRows_(into, tensor(Int32Array.from([2, 0]), [2]), x_SGK);
  expect(into.toArray()).toEqual([3, 4, 0, 0, 1, 2]);
  expect(() => storeRows_(into, tensor(Int32Array.from([3, 0]), [2]), x_SGK)).toThrow(/a slot is outside/);
  expect(() => storeRows_(into, tensor(Int32Array.from([1]), [1]), x_SGK)).toThrow(/one int32 per row/);
  expect(() => storeRows_(zeros([3, 2]), tensor(Int32Array.from([2, 0]), [2]), x_SGK)).toThrow(/rows as x has/);
});

test.each<[string, Tensor]>([
  ["float64", tensor([[1, 2]]).to("float64")],
  [
    "columns",
    tensor([
      [1, 2],
      [3, 4],
    ]).transpose(0, 1),
  ],
  ["four dimensions", tensor([[[[1]]]])],
  ["a number", tensor(1)],
])("%s is left to operators", (_what, x) => {
  expect(areRows([x])).toBe(false);
});

test.each([
  [3, 0, 4],
  [0, 2, 4],
  [0, 4],
])("a tensor without values, %j, is normed and turned to one", (...shape) => {
  const x = zeros(shape);
  x.requiresGrad = true;
  rmsNorm(x, ones([4]), 1e-6)
    .sum()
    .backward();
  expect(x.grad!.shape).toEqual(shape);
  if (shape.length === 3) expect(rotate(x, zeros([shape[0]!, 2]), zeros([shape[0]!, 2])).shape).toEqual(shape);
});

test("a norm refuses to be part of a gradient of gradients, which would lack it", () => {
  const x = randn([2, 4]);
  x.requiresGrad = true;
  const loss = rmsNorm(x, ones([4]), 1e-6)
    .square()
    .sum();
  expect(() => gradients([loss], [x], { createGraph: true })).toThrow(
    /createGraph does not go through a norm on the CPU/,
  );
});

test("weights of another width are an error", () => {
  expect(() => rmsNorm(tensor([[1, 2]]), tensor([1, 2, 3]), 0)).toThrow(/one float32 per column/);
  expect(() =>
    residualNorm(
      tensor([[1, 2]]),
      tensor([
        [1, 2],
        [3, 4],
      ]),
      tensor([1, 2]),
      0,
    ),
  ).toThrow(/one shape/);
});

test("a row that is no distribution has no log-probabilities", () => {
  const none = Number.NEGATIVE_INFINITY;
  const scores_BV = tensor([
    [Number.NaN, 1],
    [none, none],
    [Number.POSITIVE_INFINITY, 1],
    [none, 2],
  ]);
  const { tokens, modelLogprobs } = sampleRows(scores_BV, new Float64Array(4).fill(1), new Float64Array(4).fill(0.5));
  expect(Array.from(modelLogprobs)).toEqual([Number.NaN, Number.NaN, Number.NaN, 0]);
  expect([tokens[0], tokens[3]]).toEqual([-1, 1]);
});

function expectClose(values: readonly number[], others: readonly number[]): void {
  const scale = Math.max(1, ...others.map(Math.abs));
  expect(Math.max(...values.map((value, i) => Math.abs(value - others[i]!)))).toBeLessThan(2e-6 * scale);
}
