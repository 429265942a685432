import { expect, test } from "vitest";
import { randn, tensor } from "../create.ts";
import { Generator } from "../random.ts";
import type { Tensor } from "../tensor.ts";
import { initialize } from "./initialize.ts";
import type { Linear } from "./linear.ts";
import { ropeTables } from "./rope.ts";
import { SelfAttention } from "./self-attention.ts";

const generator = new Generator(0);

function setWeight(linear: Linear, values: number[][]): void {
  linear.loadStateDict(new Map([["weight", tensor(values)]]));
}

/** The same by hand, one query at a time, in plain numbers. */
function reference(x: number[][], isSeen: (query: number, key: number) => boolean): number[][] {
  return x.map((query, t) => {
    const scores = x.map((key, u) => {
      const product = query.reduce((sum, value, i) => sum + value * key[i]!, 0);
      return isSeen(t, u) ? Math.exp(product / Math.sqrt(query.length)) : 0;
    });
    const total = scores.reduce((sum, score) => sum + score, 0);
    return query.map((_, i) => x.reduce((sum, value, u) => sum + (scores[u]! / total) * value[i]!, 0));
  });
}

function expectClose(got: Tensor, expected: readonly number[]): void {
  for (const [i, value] of got.toArray().entries()) expect(value).toBeCloseTo(expected[i]!, 5);
}

function identityAttention(): SelfAttention {
  const attention = new SelfAttention({ width: 2, numHeads: 1, hasBias: false, generator });
  for (const linear of [attention.query, attention.key, attention.value, attention.output]) {
    setWeight(linear, [
      [1, 0],
      [0, 1],
    ]);
  }
  return attention;
}

const x = [
  [1, 0],
  [0.5, -1],
  [-2, 0.3],
];

test("attention with identity projections mixes the rows by softmax of their products", () => {
  expectClose(identityAttention().forward(tensor([x])), reference(x, () => true).flat());
});

test("causal attention sees the past only", () => {
  const output = identityAttention().forward(tensor([x]), { isCausal: true });
  expectClose(output, reference(x, (query, key) => key <= query).flat());
});

test("a mask says which keys a query may see", () => {
  const mask = tensor(
    [
      [1, 1, 0],
      [1, 1, 0],
      [0, 1, 1],
    ],
    { dtype: "bool" },
  );
  const seen = [
    [1, 1, 0],
    [1, 1, 0],
    [0, 1, 1],
  ];
  const output = identityAttention().forward(tensor([x]), { mask });
  expectClose(output, reference(x, (query, key) => seen[query]![key] === 1).flat());
});

test("query heads share key and value heads", () => {
  const shared = new SelfAttention({ width: 4, numHeads: 4, numKeyValueHeads: 2, hasBias: false, generator });
  const full = new SelfAttention({ width: 4, numHeads: 4, hasBias: false, generator });
  const repeat = (weight: Tensor) => weight.detach().repeatInterleave(2, 0);
  full.loadStateDict(
    new Map([
      ["query.weight", shared.query.weight],
      ["key.weight", repeat(shared.key.weight)],
      ["value.weight", repeat(shared.value.weight)],
      ["output.weight", shared.output.weight],
    ]),
  );
  const input = randn([2, 3, 4], { generator });
  expectClose(shared.forward(input, { isCausal: true }), full.forward(input, { isCausal: true }).toArray());
});

test("rope makes the order of rows matter", () => {
  const attention = new SelfAttention({ width: 4, numHeads: 1, generator, hasBias: false });
  const rope = ropeTables(8, 4, 10);
  const input = randn([1, 3, 4], { generator });
  const lastRow = (rows: Tensor, options: object) => attention.forward(rows, options).select(1, 2).toArray();
  const swapped = input.index(null, tensor([1, 0, 2], { dtype: "int64" }));
  const distance = (a: number[], b: number[]) => Math.max(...a.map((value, i) => Math.abs(value - b[i]!)));
  expect(distance(lastRow(input, {}), lastRow(swapped, {}))).toBeLessThan(1e-6);
  expect(distance(lastRow(input, { rope }), lastRow(swapped, { rope }))).toBeGreaterThan(1e-4);
});

test("gradients reach all four projections", () => {
  const attention = new SelfAttention({ width: 4, numHeads: 2, generator, initialWeight: initialize.normal(0, 1) });
  attention
    .forward(randn([1, 3, 4], { generator }))
    .square()
    .sum()
    .backward();
  for (const linear of [attention.query, attention.key, attention.value, attention.output]) {
    expect(linear.weight.grad!.abs().sum().item()).toBeGreaterThan(0);
  }
});

test("sizes that do not fit are named", () => {
  expect(() => new SelfAttention({ width: 5, numHeads: 2, generator })).toThrow(
    /width must be a multiple of numHeads: got 5 and 2/,
  );
  expect(() => new SelfAttention({ width: 6, numHeads: 3, numKeyValueHeads: 2, generator })).toThrow(
    /numKeyValueHeads must divide numHeads: got 2 and 3/,
  );
  expect(() => identityAttention().forward(tensor([x]), { rope: ropeTables(2, 2, 10) })).toThrow(
    /tables for 2 positions but the input has 3/,
  );
  expect(() => identityAttention().forward(tensor([[[1]]]))).toThrow(/SelfAttention got an input of shape \[1, 1, 1\]/);
});
