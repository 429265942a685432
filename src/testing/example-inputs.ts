/** Small float64 inputs for the tests of policy losses. */

import type { LossOutput } from "../algorithms/losses/loss-output.ts";
import type { PolicyLossInputs } from "../algorithms/losses/policy/policy-loss.ts";
import { gradients } from "../torch/autograd.ts";
import { onesLike, tensor } from "../torch/create.ts";

interface ExampleInputs {
  /** policy / anchor of every token. */
  readonly ratios: number[][];
  readonly advantages: number[][];
  /** Log-probs of the anchor. Default -1 everywhere. */
  readonly anchor?: number[][];
  /** 1 where the loss counts. Default 1 everywhere. */
  readonly mask?: number[][];
  readonly weights?: number[][];
}

/** Inputs with the given ratios; the policy's log-probs are ready for gradients. */
export function exampleInputs({ ratios, advantages, anchor, mask, weights }: ExampleInputs): PolicyLossInputs {
  const float64 = (values: number[][]) => tensor(values, { dtype: "float64" });
  const anchorLogprobs_BT = anchor ? float64(anchor) : float64(ratios).mul(0).sub(1);
  const policyLogprobs_BT = float64(ratios).log().add(anchorLogprobs_BT);
  policyLogprobs_BT.requiresGrad = true;
  return {
    policyLogprobs_BT,
    anchorLogprobs_BT,
    advantages_BT: float64(advantages),
    lossMask_BT: mask ? tensor(mask).ne(0) : onesLike(policyLogprobs_BT).ne(0),
    ...(weights && { weights_BT: float64(weights) }),
  };
}

/** Losses, and the gradient of their sum with respect to the policy's log-probs. */
export function lossesAndGradient(
  inputs: PolicyLossInputs,
  output: LossOutput,
): { readonly losses: number[]; readonly gradient: number[] } {
  const losses = output.level === "token" ? output.loss_BT : output.loss_B;
  const [gradient] = gradients([losses.sum()], [inputs.policyLogprobs_BT]);
  return { losses: losses.toArray(), gradient: gradient?.toArray() ?? [] };
}
