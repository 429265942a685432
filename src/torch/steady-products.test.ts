import { expect, test } from "vitest";
import { noGrad } from "./autograd.ts";
import { native } from "./binding.ts";
import { randn, tensor } from "./create.ts";
import { op } from "./operator.ts";
import { Generator } from "./random.ts";
import { tensorScope } from "./scope.ts";
import { linear, mixesRows, steadyProducts } from "./steady-products.ts";
import { Tensor } from "./tensor.ts";

/** The addon's product, whether or not this machine's kernels call for it. */
function product(x: Tensor, weight: Tensor, bias: Tensor | null = null): Tensor {
  return new Tensor(native.steadyLinear(x.handle, weight.handle, bias?.handle ?? null)!);
}

function onThreads<Result>(count: number, body: () => Result): Result {
  const before = native.numThreads();
  native.setNumThreads(count);
  try {
    return body();
  } finally {
    native.setNumThreads(before);
  }
}

test("a steady product is x weight' + bias over the last dimension", () => {
  tensorScope(() => {
    const x = tensor([
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
    ]);
    const weight = tensor([
      [1, 0, 1],
      [0, 1, 0],
    ]);
    const y = product(x, weight, tensor([10, 20]));
    expect(y.shape).toEqual([1, 2, 2]);
    expect([...y.toFloat32Array()]).toEqual([14, 22, 20, 25]);
    const columns = tensor([
      [1, 0],
      [0, 1],
      [1, 0],
    ]).transpose(0, 1);
    expect([...product(x.select(0, 0).narrow(0, 1, 1), columns).toFloat32Array()]).toEqual([10, 5]);
    expect(product(x.narrow(1, 0, 0), weight).shape).toEqual([1, 0, 2]);
    expect(native.steadyLinear(x.to("float64").handle, weight.handle, null)).toBeNull();
  });
});

// Sums of less than a register, with a rest, of one piece and of several; columns with and without a rest.
test.each([
  [1, 3],
  [7, 5],
  [64, 64],
  [100, 130],
  [1030, 33],
  [2500, 9],
])(
  "a row of a product over %i values for %i columns has the same bits among any others, on one thread and on three",
  (depth, width) => {
    tensorScope(() => {
      const generator = new Generator(3);
      const [x, weight] = [randn([150, depth], { generator }), randn([width, depth], { generator })];
      const whole = onThreads(1, () => product(x, weight));
      expect(whole.sub(ops.linear(x, weight)).abs().max().item()).toBeLessThan(1e-5 * Math.sqrt(depth) + 1e-5);
      for (const threads of [1, 3])
        for (const [from, count] of [
          [0, 1],
          [0, 2],
          [1, 3],
          [5, 47],
          [3, 48],
          [2, 49],
          [140, 10],
          [0, 150],
        ] as const) {
          const some = onThreads(threads, () => product(x.narrow(0, from, count), weight));
          expect(ops.equal(some, whole.narrow(0, from, count)), `${count} rows from ${from}, ${threads} threads`).toBe(
            true,
          );
        }
      generator.dispose();
    });
  },
);

test("a product is steady where that is asked for, the kernels mix rows or there may be few, and no gradient is recorded", () => {
  tensorScope(() => {
    const generator = new Generator(5);
    const [x, weight] = [randn([7, 100], { generator }), randn([33, 100], { generator })];
    const usual = ops.linear(x, weight);
    const isSteady = (y: Tensor) => ops.equal(y, product(x, weight)) && !ops.equal(y, usual);
    expect(ops.equal(product(x, weight), usual)).toBe(false);
    expect(isSteady(linear(x, weight))).toBe(false);
    expect(isSteady(steadyProducts("any", () => linear(x, weight)))).toBe(false);
    const inEngine = steadyProducts("filled up", () => noGrad(() => linear(x, weight)));
    expect(isSteady(inEngine)).toBe(mixesRows(native.openblasCore()));
    expect(isSteady(steadyProducts("any", () => noGrad(() => linear(x, weight))))).toBe(true);
    generator.dispose();
  });
});

test("all kernels of OpenBLAS mix rows but those for AVX-512; those of other libraries are left alone", () => {
  expect(["Haswell", "Zen", "Prescott", "NEOVERSEN1"].map(mixesRows)).toEqual([true, true, true, true]);
  expect(["SkylakeX", "SKYLAKEX", "Cooperlake", "SapphireRapids", null].map(mixesRows)).toEqual(Array(5).fill(false));
});

const ops = { linear: op("aten::linear"), equal: op("aten::equal") } as const;
