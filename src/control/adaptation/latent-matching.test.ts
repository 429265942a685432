import { expect, test } from "vitest";
import { gradients } from "../../torch/autograd.ts";
import { tensor } from "../../torch/create.ts";
import { latentMatchingLoss } from "./latent-matching.ts";

function run(teacherPull: number) {
  const studentLatents_BTZ = tensor(
    [
      [
        [1, 2],
        [5, 5],
      ],
    ],
    { dtype: "float64" },
  );
  const teacherLatents_BTZ = tensor(
    [
      [
        [0, 4],
        [9, 9],
      ],
    ],
    { dtype: "float64" },
  );
  for (const latents of [studentLatents_BTZ, teacherLatents_BTZ]) latents.requiresGrad = true;
  const lossMask_BT = tensor([[1, 0]]).ne(0);
  const { loss_BT } = latentMatchingLoss({ studentLatents_BTZ, teacherLatents_BTZ, lossMask_BT }, { teacherPull });
  const [student, teacher] = gradients([loss_BT.sum()], [studentLatents_BTZ, teacherLatents_BTZ]);
  return { losses: loss_BT.toArray(), student: student!.toArray(), teacher: teacher?.toArray() ?? null };
}

test("the student is pulled to the teacher, which stays", () => {
  const { losses, student, teacher } = run(0);
  expect(losses).toEqual([2.5, 0]);
  expect(student).toEqual([1, -2, 0, 0]);
  expect(teacher).toBeNull();
});

test("with a pull the teacher moves too, and the student as before", () => {
  const { losses, student, teacher } = run(0.5);
  expect(losses).toEqual([3.75, 0]);
  expect(student).toEqual([1, -2, 0, 0]);
  expect(teacher).toEqual([-0.5, 1, 0, 0]);
});
