import { expect, test } from "vitest";
import { tensor } from "../../../torch/create.ts";
import { contextDistillationLoss, replyPositions } from "./context-distillation.ts";

test("the reply of each row is cut from where it begins for the teacher", () => {
  const values_BSV = tensor([
    [[0], [1], [2], [3]],
    [[10], [11], [12], [13]],
  ]);
  expect(replyPositions(values_BSV, [1, 2], 2).toArray()).toEqual([1, 2, 12, 13]);
  expect(replyPositions(values_BSV, [3, 0], 2).toArray()).toEqual([3, 3, 10, 11]);
});

test("equal scores at the tokens of the reply have loss 0, whatever the context scored", () => {
  const reply = [
    [1, 2],
    [3, 4],
  ];
  const inputs = {
    policyLogits_BTV: tensor([reply], { dtype: "float64" }),
    teacherLogits_BSV: tensor([[[9, -9], [-5, 5], ...reply]], { dtype: "float64" }),
    teacherStarts: [2],
    lossMask_BT: tensor([[1, 1]]).ne(0),
  };
  expect(contextDistillationLoss(inputs, { direction: "forward" }).loss_BT.toArray()).toEqual([0, 0]);
  const shifted = contextDistillationLoss({ ...inputs, teacherStarts: [1] }, { direction: "forward" });
  expect(shifted.loss_BT.toArray()[0]).toBeGreaterThan(0);
});

test("a start outside of the teacher's positions is refused", () => {
  expect(() => replyPositions(tensor([[[0], [1]]]), [2], 1)).toThrow(/teacherStarts\[0\].*in \[0, 1\]: got 2/);
  expect(() => replyPositions(tensor([[[0], [1]]]), [0, 0], 1)).toThrow(/2 entries for 1 rows/);
});
