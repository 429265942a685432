import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import { Parameter } from "../../torch/nn/module.ts";
import { clipGradNorm } from "../../torch/optim/clip-grad-norm.ts";
import { tensorScope } from "../../torch/scope.ts";
import { clipOver } from "./parameter-set.ts";

/** The norm that one rank takes, the norm over ranks, and what each leaves of the gradients. */
function clipBoth(gradients: readonly (readonly number[])[], maxNorm: number) {
  return tensorScope(() => {
    const parameters = gradients.map((values) => {
      const parameter = new Parameter(tensor([...values]));
      parameter.grad = tensor([...values]);
      return parameter;
    });
    const copies = gradients.map((values) => tensor([...values]));
    const one = clipGradNorm(parameters, maxNorm).item();
    const many = clipOver([Collective.alone], copies, copies, maxNorm, "cpu").item();
    const left = copies.flatMap((copy) => copy.toArray());
    const expected = parameters.flatMap(({ grad }) => grad!.toArray());
    for (const parameter of parameters) parameter.dispose();
    return { one, many, left, expected };
  });
}

test("a norm of 13 is clipped to 1 alike", () => {
  const { one, many, left, expected } = clipBoth([[3, 4], [12]], 1);
  expect([one, many]).toEqual([13, 13]);
  expect(left).toEqual(expected);
  expect(left[2]).toBeCloseTo(12 / 13, 6);
});

// The square of 1.8e19 is the largest that float32 has: an update is skipped where a norm is not finite, by one rank or by several.
test.each([
  ["below the largest root", [[1e19], [1e19]], true],
  ["above it, in one tensor", [[2e19], [1]], false],
  ["above it, in two that are each below", [[1.5e19], [1.5e19]], false],
])("a norm %s is finite on one rank where it is over ranks", (_, gradients, isFinite) => {
  const { one, many } = clipBoth(gradients, 1);
  expect([Number.isFinite(one), Number.isFinite(many)]).toEqual([isFinite, isFinite]);
});
