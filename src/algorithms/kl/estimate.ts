/**
 * Estimates of KL(policy || reference) per token, from the log-probs of the sampled tokens.
 *
 * With d = policy - reference:
 *
 * | form | value | gradient in d | |
 * |---|---|---|---|
 * | k1 | d | 1 | unbiased value, high variance; its expected gradient is 0 |
 * | abs | abs(d) | sign(d) | |
 * | k2 | d^2 / 2 | d | biased value; its expected gradient is that of the KL |
 * | k3 | exp(-d) + d - 1 | 1 - exp(-d) | unbiased value, low variance, never negative |
 *
 * k3 takes d within [-20, 20] and its value within [-10, 10], as verl does. Source: Schulman, "Approximating KL
 * divergence" (2020), and arXiv:2506.09477 for the gradients.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectAlike } from "../expect-batch.ts";

export type KlForm = "k1" | "k2" | "k3" | "abs";

/** A form for the value and one for the gradient; where they differ, the estimate is straight-through. */
export interface KlEstimator {
  readonly value: KlForm;
  readonly gradient: KlForm;
}

/**
 * The estimate for each token, in the shape of the log-probs. Log-probs whose difference is NaN count as equal, and
 * infinite differences as 20 or -20; neither has a gradient. Gradients flow to the policy only.
 *
 * @example klEstimate(policyLogprobs_BT, referenceLogprobs_BT, parseKlEstimator("k3+"))
 */
export function klEstimate(policyLogprobs: Tensor, referenceLogprobs: Tensor, estimator: KlEstimator): Tensor {
  expectAlike({ policyLogprobs, referenceLogprobs });
  const difference = ops.nanToNum(policyLogprobs.sub(referenceLogprobs.detach()), 0, MAX_DIFFERENCE, -MAX_DIFFERENCE);
  if (estimator.value === estimator.gradient) return formOf(difference, estimator.value);
  const followed = formOf(difference, estimator.gradient);
  return followed.sub(followed.detach()).add(formOf(difference.detach(), estimator.value));
}

/**
 * An estimator by its usual name: a form, or a form with `+` for the value of that form and the gradient of k2, as in
 * verl's `k3+`. The names `kl`, `mse` and `low_var_kl` of verl and ROLL mean k1, k2 and k3.
 */
export function parseKlEstimator(name: string): KlEstimator {
  const isStraightThrough = name.endsWith("+");
  const value = forms.get(isStraightThrough ? name.slice(0, -1) : name);
  if (value === undefined) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `"${name}" is not a KL estimator. Known are ${[...forms.keys()].join(", ")}, each also with "+" for the gradient ` +
        "of k2.",
      { name },
    );
  }
  return { value, gradient: isStraightThrough ? "k2" : value };
}

const MAX_DIFFERENCE = 20;
const MAX_K3 = 10;

const forms: ReadonlyMap<string, KlForm> = new Map([
  ["k1", "k1"],
  ["k2", "k2"],
  ["k3", "k3"],
  ["abs", "abs"],
  ["kl", "k1"],
  ["mse", "k2"],
  ["low_var_kl", "k3"],
]);

function formOf(difference: Tensor, form: KlForm): Tensor {
  switch (form) {
    case "k1":
      return difference;
    case "abs":
      return difference.abs();
    case "k2":
      return difference.square().mul(0.5);
    case "k3": {
      const bounded = difference.neg().clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE);
      return bounded.exp().sub(bounded).sub(1).clamp(-MAX_K3, MAX_K3);
    }
  }
}

const ops = { nanToNum: op("aten::nan_to_num") } as const;
