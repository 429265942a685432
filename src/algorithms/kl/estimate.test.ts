import { describe, expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { type KlEstimator, klEstimate, parseKlEstimator } from "./estimate.ts";

const close = (values: number[]) => values.map((value) => expect.closeTo(value, 10));
const plain = (form: KlEstimator["value"]): KlEstimator => ({ value: form, gradient: form });

function run(policy: number[], reference: number[], estimator: KlEstimator): { value: number[]; gradient: number[] } {
  const policyLogprobs = tensor(policy, { dtype: "float64" });
  policyLogprobs.requiresGrad = true;
  const kl = klEstimate(policyLogprobs, tensor(reference, { dtype: "float64" }), estimator);
  kl.sum().backward();
  return { value: kl.toArray(), gradient: policyLogprobs.grad!.toArray() };
}

// Differences 1, 0 and -2.
const policy = [-1, -1, -3];
const reference = [-2, -1, -1];

test.each([
  { form: "k1" as const, value: [1, 0, -2], gradient: [1, 1, 1] },
  { form: "abs" as const, value: [1, 0, 2], gradient: [1, 0, -1] },
  { form: "k2" as const, value: [0.5, 0, 2], gradient: [1, 0, -2] },
  { form: "k3" as const, value: [1 / Math.E, 0, Math.E ** 2 - 3], gradient: [1 - 1 / Math.E, 0, 1 - Math.E ** 2] },
])("$form has the value and gradient of its formula", ({ form, value, gradient }) => {
  const result = run(policy, reference, plain(form));
  expect(result.value).toEqual(close(value));
  expect(result.gradient).toEqual(close(gradient));
});

test("a straight-through estimator has the value of one form and the gradient of the other", () => {
  const result = run(policy, reference, { value: "k3", gradient: "k2" });
  expect(result.value).toEqual(run(policy, reference, plain("k3")).value);
  expect(result.gradient).toEqual(run(policy, reference, plain("k2")).gradient);
});

test("k3 is bounded and has no gradient at its bound", () => {
  const { value, gradient } = run([-50], [-1], plain("k3"));
  expect([value, gradient]).toEqual([[10], [-0]]);
});

describe.each(["k1", "k2", "k3", "abs", "k1+", "k3+"])("%s", (name) => {
  test("gives log-probs that are not finite a finite value and no gradient", () => {
    const { NaN: nan, NEGATIVE_INFINITY: minus } = Number;
    const { value, gradient } = run([nan, -1, minus, -1, minus], [-1, nan, -1, minus, minus], parseKlEstimator(name));
    expect(value.every(Number.isFinite)).toBe(true);
    expect(gradient.map(Math.abs)).toEqual([0, 0, 0, 0, 0]);
  });
});

test("gradients flow to the policy only", () => {
  const [policyLogprobs, referenceLogprobs] = [tensor([-1]), tensor([-2])];
  policyLogprobs.requiresGrad = true;
  referenceLogprobs.requiresGrad = true;
  klEstimate(policyLogprobs, referenceLogprobs, plain("k3")).sum().backward();
  expect(referenceLogprobs.grad).toBeNull();
});

test("names of other libraries are understood, with and without the plus", () => {
  expect(parseKlEstimator("low_var_kl+")).toEqual({ value: "k3", gradient: "k2" });
  expect(parseKlEstimator("kl")).toEqual({ value: "k1", gradient: "k1" });
  expect(() => parseKlEstimator("k4")).toThrow(/"k4" is not a KL estimator. Known are k1, k2, k3, abs/);
});

test("log-probs of two shapes are refused", () => {
  expect(() => klEstimate(tensor([1, 2]), tensor([1]), plain("k1"))).toThrow(/referenceLogprobs has shape \[1\]/);
});
