import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tensor } from "../torch/create.ts";
import { tensorScope } from "../torch/scope.ts";
import { globalDenominators, type Reduction, reduceLoss, reduceSequenceLoss } from "./reduce.ts";

const loss_BT = tensor(
  [
    [1, 2, 9],
    [4, 9, 9],
    [6, 8, 10],
  ],
  { dtype: "float64" },
);
const lossMask_BT = tensor(
  [
    [1, 1, 0],
    [1, 0, 0],
    [1, 1, 1],
  ],
  { dtype: "bool" },
);
const groupOf = [7, 7, 3];
// The first two rows are forks of one trajectory.
const trajectoryOf = [4, 4, 9];
const reductions: readonly Reduction[] = [
  { type: "token-mean" },
  { type: "token-sum" },
  { type: "seq-mean-token-mean" },
  { type: "seq-mean-token-sum" },
  { type: "seq-mean-token-sum-norm", lengthDivisor: 10 },
  { type: "prompt-mean" },
  { type: "trajectory-mean-token-mean" },
  { type: "trajectory-mean-token-sum" },
  { type: "trajectory-mean-token-sum-norm", lengthDivisor: 10 },
];

test("denominators count tokens, and rows, trajectories and groups with tokens", () => {
  const mask = tensor(
    [
      [1, 1, 0],
      [0, 0, 0],
      [1, 0, 0],
      [0, 0, 0],
    ],
    { dtype: "bool" },
  );
  const counted = globalDenominators(mask, [5, 5, 5, 8], [1, 1, 1, 2]);
  expect(counted).toMatchObject({ numTokens: 3, numSequences: 2, numTrajectories: 1, numPrompts: 1 });
  expect([...counted.tokensPerTrajectory]).toEqual([
    [1, 3],
    [2, 0],
  ]);
  expect(globalDenominators(mask, [5, 5, 5, 8]).numTrajectories).toBe(2);
  expect([...counted.tokensPerPrompt]).toEqual([
    [5, 3],
    [8, 0],
  ]);
});

test.each([
  // Rows sum to 3, 4, 24 over 2, 1, 3 tokens; prompt 7 has the first two rows.
  { reduction: reductions[0]!, expected: 31 / 6 },
  { reduction: reductions[1]!, expected: 31 },
  { reduction: reductions[2]!, expected: (1.5 + 4 + 8) / 3 },
  { reduction: reductions[3]!, expected: 31 / 3 },
  { reduction: reductions[4]!, expected: 31 / 30 },
  { reduction: reductions[5]!, expected: (7 / 3 + 8) / 2 },
  { reduction: reductions[6]!, expected: (7 / 3 + 8) / 2 },
  { reduction: reductions[7]!, expected: 31 / 2 },
  { reduction: reductions[8]!, expected: 31 / 20 },
])("$reduction.type reduces by its formula", ({ reduction, expected }) => {
  const denominators = globalDenominators(lossMask_BT, groupOf, trajectoryOf);
  const rows = { lossMask_BT, groupOf, trajectoryOf };
  expect(reduceLoss(loss_BT, rows, reduction, denominators).item()).toBeCloseTo(expected, 7);
});

test.each([
  ["trajectory-mean-token-mean", "seq-mean-token-mean"],
  ["trajectory-mean-token-sum", "seq-mean-token-sum"],
] as const)("%s is %s to the bit where every row is a trajectory", (ofTrajectories, ofRows) => {
  const [mask, loss] = [lossMask_BT, loss_BT.to("float32").div(7)];
  const each = globalDenominators(mask, groupOf, [0, 1, 2]);
  const rows = { lossMask_BT: mask, groupOf, trajectoryOf: [0, 1, 2] };
  const reduce = (type: typeof ofTrajectories | typeof ofRows) => reduceLoss(loss, rows, { type }, each).item();
  expect(reduce(ofTrajectories)).toBe(reduce(ofRows));
});

test.each([
  // Rows sum to 3, 4, 24; the weights 2, 0.5, 0 make them 6, 2, 0. What is divided by stays.
  { reduction: reductions[0]!, expected: 8 / 6 },
  { reduction: reductions[1]!, expected: 8 },
  { reduction: reductions[2]!, expected: (3 + 2 + 0) / 3 },
  { reduction: reductions[3]!, expected: 8 / 3 },
  { reduction: reductions[4]!, expected: 8 / 30 },
  { reduction: reductions[5]!, expected: 8 / 3 / 2 },
  { reduction: reductions[6]!, expected: 8 / 3 / 2 },
  { reduction: reductions[7]!, expected: 8 / 2 },
  { reduction: reductions[8]!, expected: 8 / 20 },
])("$reduction.type counts rows by their weights, over the denominators of all rows", ({ reduction, expected }) => {
  const denominators = globalDenominators(lossMask_BT, groupOf, trajectoryOf);
  const rowWeights_B = tensor([2, 0.5, 0], { dtype: "float64" });
  const rows = { lossMask_BT, groupOf, trajectoryOf, rowWeights_B };
  expect(reduceLoss(loss_BT, rows, reduction, denominators).item()).toBeCloseTo(expected, 7);
});

test("a loss per row is averaged over trajectories, whose rows share by their tokens, and empty ones do not", () => {
  const mask = tensor(
    [
      [1, 1],
      [0, 0],
      [1, 0],
    ],
    { dtype: "bool" },
  );
  const loss_B = tensor([2, Number.NaN, 6]);
  const rows = { lossMask_BT: mask, groupOf: [0, 0, 0] };
  expect(reduceSequenceLoss(loss_B, rows, globalDenominators(mask, rows.groupOf)).item()).toBe(4);
  const forked = { ...rows, trajectoryOf: [5, 5, 5] };
  const denominators = globalDenominators(mask, rows.groupOf, forked.trajectoryOf);
  // Two tokens of 2 and one of 6.
  expect(reduceSequenceLoss(loss_B, forked, denominators).item()).toBeCloseTo(10 / 3, 6);
});

describe.each(reductions)("$type", (reduction) => {
  test("is 0 with gradient 0 for a batch without loss tokens", () => {
    const values = tensor([[Number.NaN, 1]], { dtype: "float64" });
    values.requiresGrad = true;
    const none = { lossMask_BT: tensor([[0, 0]], { dtype: "bool" }), groupOf: [0] };
    const loss = reduceLoss(values, none, reduction, globalDenominators(none.lossMask_BT, none.groupOf));
    loss.backward();
    expect([loss.item(), ...values.grad!.toArray()]).toEqual([0, 0, 0]);
  });

  test("adds up over any cut into microbatches, in loss and gradient", () => {
    const batches = fc.record({
      rows: fc.array(
        fc.record({
          losses: fc.array(fc.double({ min: -5, max: 5, noNaN: true }), { minLength: 4, maxLength: 4 }),
          mask: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
          group: fc.integer({ min: 0, max: 2 }),
          fork: fc.integer({ min: 0, max: 1 }),
        }),
        { minLength: 1, maxLength: 6 },
      ),
      size: fc.integer({ min: 1, max: 4 }),
    });
    const property = fc.property(batches, ({ rows, size }) =>
      tensorScope(() => {
        const part = (from: number, to: number) => {
          const some = rows.slice(from, to);
          const values = tensor(
            some.map((row) => row.losses),
            { dtype: "float64" },
          );
          values.requiresGrad = true;
          const mask = tensor(
            some.map((row) => row.mask.map(Number)),
            { dtype: "bool" },
          );
          const groupOf = some.map((row) => row.group);
          return { values, lossMask_BT: mask, groupOf, trajectoryOf: some.map((row) => 10 * row.group + row.fork) };
        };
        const whole = part(0, rows.length);
        const denominators = globalDenominators(whole.lossMask_BT, whole.groupOf, whole.trajectoryOf);
        const total = reduceLoss(whole.values, whole, reduction, denominators);
        total.backward();
        const starts = rows.map((_, row) => row).filter((row) => row % size === 0);
        const parts = starts.map((start) => part(start, start + size));
        const losses = parts.map((some) => reduceLoss(some.values, some, reduction, denominators));
        for (const loss of losses) loss.backward();
        expect(losses.reduce((sum, loss) => sum + loss.item(), 0)).toBeCloseTo(total.item(), 10);
        const gradient = parts.flatMap((some) => some.values.grad!.toArray());
        whole.values.grad!.toArray().forEach((value, i) => {
          expect(gradient[i]).toBeCloseTo(value, 12);
        });
      }),
    );
    fc.assert(property, { numRuns: 25 });
  });
});

test("tokens that bypass mode rejects leave their share to the others of their row, as where every row is a trajectory", () => {
  const denominators = globalDenominators(lossMask_BT, groupOf, trajectoryOf);
  const fewer_BT = lossMask_BT.logicalAnd(loss_BT.ne(2));
  const rows = { lossMask_BT: fewer_BT, groupOf, trajectoryOf, counted_B: lossMask_BT.sum(1) };
  const loss = reduceLoss(loss_BT, rows, { type: "trajectory-mean-token-mean" }, denominators);
  // The first row is now 1 and keeps two thirds of its trajectory.
  expect(loss.item()).toBeCloseTo(((1 * 2) / 3 + 4 / 3 + 8) / 2, 7);
});

test("prompt-mean refuses a group that was not counted", () => {
  const denominators = globalDenominators(lossMask_BT, groupOf);
  const rows = { lossMask_BT, groupOf: [7, 7, 4] };
  expect(() => reduceLoss(loss_BT, rows, { type: "prompt-mean" }, denominators)).toThrow(
    /groupOf\[2\] is 4, a number that the denominators do not know/,
  );
});

test("a length divisor of 0 is refused", () => {
  const denominators = globalDenominators(lossMask_BT, groupOf);
  const reduction = { type: "seq-mean-token-sum-norm", lengthDivisor: 0 } as const;
  expect(() => reduceLoss(loss_BT, { lossMask_BT, groupOf }, reduction, denominators)).toThrow(
    /lengthDivisor must be a finite number above 0: got 0/,
  );
});
