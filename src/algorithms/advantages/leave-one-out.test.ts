import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { leaveOneOut } from "./leave-one-out.ts";

test("the baseline is the mean of the others", () => {
  // Others of 1, 2, 6 have means 4, 3.5, 1.5.
  const advantages = leaveOneOut(tensor([1, 2, 6], { dtype: "float64" }), [0, 0, 0]).toArray();
  expect(advantages).toEqual([-3, -1.5, 4.5].map((value) => expect.closeTo(value, 12)));
});

test("a group of one sample gives nothing, or its reward when asked for", () => {
  expect(leaveOneOut(tensor([4, 1, 3]), [7, 2, 2]).toArray()).toEqual([0, -2, 2]);
  expect(leaveOneOut(tensor([4, 1, 3]), [7, 2, 2], { singleton: "raw" }).toArray()).toEqual([4, -2, 2]);
});
