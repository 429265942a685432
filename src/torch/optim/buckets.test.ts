import { expect, test } from "vitest";
import { empty, tensor } from "../create.ts";
import { Parameter } from "../nn/module.ts";
import { bucketsOf, updatesOf } from "./buckets.ts";

function withGradient(values: Parameter): Parameter {
  values.grad = values.detach();
  return values;
}

test("updates of one type and key share a bucket", () => {
  const a = withGradient(new Parameter(tensor([1])));
  const b = withGradient(new Parameter(tensor([1], { dtype: "bfloat16" })));
  const c = withGradient(new Parameter(tensor([1])));
  const d = withGradient(new Parameter(tensor([1])));
  const skipped = new Parameter(tensor([1]));
  const steps = new Map([
    [a, 1],
    [b, 1],
    [c, 1],
    [d, 2],
  ]);
  const updates = updatesOf([a, b, skipped, c, d], (parameter) => steps.get(parameter)!);
  const buckets = bucketsOf(updates, (step) => step).map((bucket) => bucket.map(({ parameter }) => parameter));
  expect(buckets).toEqual([[a, c], [b], [d]]);
});

test("a bucket holds 2^26 elements at most, or one parameter", () => {
  // Memory that is not touched is not paid for.
  const large = () => withGradient(new Parameter(empty([2 ** 25 + 1], { dtype: "bfloat16" })));
  const parameters = [large(), large()];
  expect(
    bucketsOf(
      updatesOf(parameters, () => 0),
      () => 0,
    ),
  ).toHaveLength(2);
});
