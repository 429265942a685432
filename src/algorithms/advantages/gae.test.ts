import fc from "fast-check";
import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { tensorScope } from "../../torch/scope.ts";
import { gae } from "./gae.ts";

const double = (values: number[] | number[][]) => tensor(values, { dtype: "float64" });
const bool = (values: number[][]) => tensor(values, { dtype: "bool" });
const close = (values: number[]) => values.map((value) => expect.closeTo(value, 10));
const options = { gamma: 0.9, lambda: 0.8 };

// delta = .9*.6-.5, .9*.7-.6, 1-.7 = .04, .03, .3; gamma lambda = .72.
const advantages = [0.04 + 0.72 * (0.03 + 0.72 * 0.3), 0.03 + 0.72 * 0.3, 0.3];

test("gae sums discounted TD errors, and returns are advantages plus values", () => {
  const inputs = {
    rewards_BT: double([[0, 0, 1]]),
    values_BT: double([[0.5, 0.6, 0.7]]),
    lossMask_BT: bool([[1, 1, 1]]),
  };
  const { advantages_BT, returns_BT } = gae(inputs, options);
  expect(advantages_BT.toArray()).toEqual(close(advantages));
  expect(returns_BT.toArray()).toEqual(close([0.71712, 0.846, 1]));
});

test("gae skips observation tokens and padding, whose values are not read", () => {
  const inputs = {
    rewards_BT: double([[0, 0, 0, 0, 1, 0]]),
    values_BT: double([[0.5, Number.NaN, 0.6, Number.POSITIVE_INFINITY, 0.7, Number.NaN]]),
    lossMask_BT: bool([[1, 0, 1, 0, 1, 0]]),
  };
  const { advantages_BT, returns_BT } = gae(inputs, options);
  const [first, second, third] = advantages;
  expect(advantages_BT.toArray()).toEqual(close([first!, 0, second!, 0, third!, 0]));
  expect(returns_BT.toArray()).toEqual(close([0.71712, 0, 0.846, 0, 1, 0]));
});

test("gae bootstraps from the value when the row is truncated, at whatever length it ended", () => {
  const inputs = {
    rewards_BT: double([
      [0, 0],
      [0, 0],
    ]),
    values_BT: double([
      [0.5, 0],
      [0.5, 0],
    ]),
    lossMask_BT: bool([
      [1, 0],
      [1, 0],
    ]),
    bootstrapValues_B: double([2, 0]),
  };
  expect(gae(inputs, options).advantages_BT.toArray()).toEqual(close([0.9 * 2 - 0.5, 0, -0.5, 0]));
});

test("a reward on an observation goes to the action before it, or is dropped", () => {
  const inputs = {
    rewards_BT: double([[5, 0, 1, 0]]),
    values_BT: double([[0, 0.5, 0, 0.25]]),
    lossMask_BT: bool([[0, 1, 0, 1]]),
  };
  const credited = gae(inputs, options).advantages_BT.toArray();
  expect(credited).toEqual(close([0, 1 + 0.9 * 0.25 - 0.5 - 0.72 * 0.25, 0, -0.25]));
  const dropped = gae(inputs, { ...options, rewardsOutsideMask: "drop" }).advantages_BT.toArray();
  expect(dropped).toEqual(close([0, 0.9 * 0.25 - 0.5 - 0.72 * 0.25, 0, -0.25]));
});

test("gae takes no gradient from values, keeps their type, and gives 0 for a row without loss tokens", () => {
  const values_BT = tensor([[0.5, 0.5]]);
  values_BT.requiresGrad = true;
  const { advantages_BT } = gae({ rewards_BT: tensor([[1, 1]]), values_BT, lossMask_BT: bool([[0, 0]]) });
  expect([advantages_BT.requiresGrad, advantages_BT.dtype]).toEqual([false, "float32"]);
  expect(advantages_BT.toArray()).toEqual([0, 0]);
});

test("observation tokens at any place leave the advantages of loss tokens as they were", () => {
  const token = fc.record({
    reward: fc.double({ min: -2, max: 2, noNaN: true }),
    value: fc.double({ min: -2, max: 2, noNaN: true }),
    gap: fc.integer({ min: 0, max: 2 }),
  });
  const property = fc.property(fc.array(token, { minLength: 1, maxLength: 8 }), (tokens) => {
    const spaced = tokens.flatMap(({ reward, value, gap }) => [
      ...Array.from({ length: gap }, () => ({ reward: 0, value: 99, isLoss: 0 })),
      { reward, value, isLoss: 1 },
    ]);
    const run = (row: { reward: number; value: number; isLoss: number }[]) =>
      tensorScope(() => {
        const inputs = {
          rewards_BT: double([row.map((at) => at.reward)]),
          values_BT: double([row.map((at) => at.value)]),
          lossMask_BT: bool([row.map((at) => at.isLoss)]),
        };
        return gae(inputs, options).advantages_BT.toArray();
      });
    const dense = run(tokens.map((at) => ({ ...at, isLoss: 1 })));
    expect(run(spaced).filter((_, i) => spaced[i]!.isLoss === 1)).toEqual(dense);
  });
  fc.assert(property, { numRuns: 50 });
});

test.each([
  {
    field: "rewards_BT",
    inputs: { rewards_BT: double([[Number.NaN, 0]]) },
    message: /rewards_BT must be finite: got NaN at \[0, 0\]/,
  },
  {
    field: "values_BT",
    inputs: { values_BT: double([[0, Number.POSITIVE_INFINITY]]) },
    message: /values_BT must be finite: got Infinity at \[0, 1\]/,
  },
  {
    field: "bootstrapValues_B",
    inputs: { bootstrapValues_B: double([0, 0]) },
    message: /bootstrapValues_B has shape \[2\]/,
  },
])("gae refuses a wrong $field", ({ inputs, message }) => {
  const right = { rewards_BT: double([[0, 0]]), values_BT: double([[0, 0]]), lossMask_BT: bool([[1, 1]]) };
  expect(() => gae({ ...right, ...inputs })).toThrow(message);
});

test("gae refuses discounts outside of [0, 1]", () => {
  const inputs = { rewards_BT: double([[0]]), values_BT: double([[0]]), lossMask_BT: bool([[1]]) };
  expect(() => gae(inputs, { gamma: 1.01 })).toThrow(/gamma must be in \[0, 1\]: got 1.01/);
  expect(() => gae(inputs, { lambda: -0.1 })).toThrow(/lambda must be in \[0, 1\]: got -0.1/);
});
