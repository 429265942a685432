import type { Tensor } from "../../torch/tensor.ts";
import { toTokens } from "../advantages/token-values.ts";
import type { EstimateInputs, Estimator } from "./recipe.ts";

/** An estimator from one that gives an advantage per trajectory (or step): every loss token of it gets that one. */
export function rowEstimate(estimate: (inputs: EstimateInputs) => Tensor): Estimator {
  return (inputs) => ({ advantages_BT: toTokens(estimate(inputs), inputs.lossMask_BT) });
}
