import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { actionKlLoss, actionMeanLoss } from "./action-matching.ts";

const lossMask_BT = tensor([[1]]).ne(0);
const actions = (...values: number[]) => tensor([[values]], { dtype: "float64" });

test("means are matched by their squared distance", () => {
  const studentMeans_BTA = actions(1, 3);
  studentMeans_BTA.requiresGrad = true;
  const { loss_BT } = actionMeanLoss({ studentMeans_BTA, teacherMeans_BTA: actions(0, 5), lossMask_BT });
  expect(loss_BT.item()).toBe(2.5);
  expect(gradients([loss_BT.sum()], [studentMeans_BTA])[0]!.toArray()).toEqual([1, -2]);
});

// Student N(1, 2^2), teacher N(0, 1).
const inputs = {
  studentMeans_BTA: actions(1),
  studentLogStds_BTA: actions(Math.log(2)),
  teacherMeans_BTA: actions(0),
  teacherLogStds_BTA: actions(0),
  lossMask_BT,
};

test("forward is KL(teacher || student)", () => {
  const { loss_BT } = actionKlLoss(inputs, { direction: "forward" });
  expect(loss_BT.item()).toBeCloseTo(Math.log(2) + (1 + 1) / 8 - 0.5, 12);
});

test("reverse is KL(student || teacher)", () => {
  const { loss_BT } = actionKlLoss(inputs, { direction: "reverse" });
  expect(loss_BT.item()).toBeCloseTo(-Math.log(2) + (4 + 1) / 2 - 0.5, 12);
});

test("equal distributions have loss 0 and gradient 0", () => {
  const studentMeans_BTA = actions(0.3, -2);
  const studentLogStds_BTA = actions(-1, 0.5);
  for (const trained of [studentMeans_BTA, studentLogStds_BTA]) trained.requiresGrad = true;
  const { loss_BT } = actionKlLoss(
    {
      studentMeans_BTA,
      studentLogStds_BTA,
      teacherMeans_BTA: studentMeans_BTA.detach(),
      teacherLogStds_BTA: studentLogStds_BTA.detach(),
      lossMask_BT,
    },
    { direction: "forward" },
  );
  expect(loss_BT.item()).toBe(0);
  const grads = gradients([loss_BT.sum()], [studentMeans_BTA, studentLogStds_BTA]);
  expect(grads.flatMap((gradient) => gradient!.toArray()).map(Math.abs)).toEqual([0, 0, 0, 0]);
});

test("a deviation of 0 leaves a finite gradient", () => {
  const studentLogStds_BTA = actions(Number.NEGATIVE_INFINITY);
  studentLogStds_BTA.requiresGrad = true;
  const { loss_BT } = actionKlLoss({ ...inputs, studentLogStds_BTA }, { direction: "forward" });
  expect(gradients([loss_BT.sum()], [studentLogStds_BTA])[0]!.item()).toBe(0);
});
