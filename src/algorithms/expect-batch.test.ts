import { expect, test } from "vitest";
import { tensor, zeros } from "../torch/create.ts";
import { expectAlike, expectBatch, expectFinite, expectGroups, expectRange, expectRows } from "./expect-batch.ts";

const mask = tensor(
  [
    [1, 0],
    [1, 1],
  ],
  { dtype: "bool" },
);

test("a batch of one shape passes, with values per row", () => {
  expectBatch(mask, { rewards_BT: zeros([2, 2]) }, { baselines_B: zeros([2]) });
});

test.each([
  {
    name: "another shape",
    run: () => expectBatch(mask, { values_BT: zeros([2, 3]) }),
    message: /values_BT has shape \[2, 3\] but lossMask_BT has \[2, 2\]/,
  },
  {
    name: "a wrong number of rows",
    run: () => expectBatch(mask, {}, { rewards_B: zeros([3]) }),
    message: /rewards_B has shape \[3\].*one entry per row/,
  },
  {
    name: "a mask of numbers",
    run: () => expectBatch(zeros([2, 2])),
    message: /lossMask_BT must be a bool tensor: got float32. Use lossMask_BT.ne\(0\)/,
  },
  {
    name: "an empty mask tensor",
    run: () => expectBatch(zeros([0, 4], { dtype: "bool" })),
    message: /at least one row and one token: got \[0, 4\]/,
  },
  {
    name: "integers",
    run: () => expectBatch(mask, { rewards_BT: zeros([2, 2], { dtype: "int64" }) }),
    message: /rewards_BT must hold float32 or float64: got int64/,
  },
  {
    name: "rows that differ",
    run: () => expectRows({ a_B: zeros([2]), b_B: zeros([3]) }),
    message: /b_B has shape \[3\] but a_B has \[2\]/,
  },
  { name: "no rows", run: () => expectRows({ a_B: zeros([0]) }), message: /a_B must be \[B\] with at least one row/ },
  {
    name: "tensors that differ",
    run: () => expectAlike({ a: zeros([2]), b: zeros([1, 2]) }),
    message: /b has shape \[1, 2\] but a has \[2\]/,
  },
  { name: "too few groups", run: () => expectGroups("groupOf", [1], 2), message: /groupOf has 1 entries for 2 rows/ },
  {
    name: "a group that is no whole number",
    run: () => expectGroups("groupOf", [1, 0.5], 2),
    message: /groupOf\[1\] must be a whole number: got 0.5/,
  },
  {
    name: "values that are not finite",
    run: () =>
      expectFinite({
        rewards_BT: tensor([
          [1, Number.NaN],
          [Number.POSITIVE_INFINITY, 0],
        ]),
      }),
    message: /rewards_BT must be finite: 2 of its values are NaN or infinite, the first at \[0, 1\]/,
  },
  {
    name: "a number outside of its range",
    run: () => expectRange("gamma", 1.5, 0, 1),
    message: /gamma must be in \[0, 1\]: got 1.5/,
  },
  {
    name: "NaN as an option",
    run: () => expectRange("factor", Number.NaN, 0),
    message: /factor must be at least 0: got NaN/,
  },
])("$name is refused", ({ run, message }) => {
  expect(run).toThrow(message);
});
