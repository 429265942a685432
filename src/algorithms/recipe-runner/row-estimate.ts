import type { Tensor } from "../../torch/tensor.ts";
import { toTokens } from "../advantages/token-values.ts";
import type { EstimateInputs, Estimator } from "./recipe.ts";

/**
 * Turns a function that gives one advantage per trajectory (or step) into an estimator that gives it to every loss
 * token.
 */
export function rowEstimate(estimate: (inputs: EstimateInputs) => Tensor): Estimator {
  return (inputs) => ({ advantages_BT: toTokens(estimate(inputs), inputs.lossMask_BT) });
}
