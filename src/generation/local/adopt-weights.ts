/** A model that reads the weights of another one where they are, instead of holding a copy. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { noGrad } from "../../torch/autograd.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";

/**
 * Points every parameter of a model to the memory of one with the same name, shape, type and device, which stays alive for as long as either
 * needs it. All of them or none: that is checked first.
 */
export function adoptWeights(model: CausalLm, parameters: ReadonlyMap<string, Tensor>): void {
  const own = [...model.namedParameters()];
  for (const [name, { shape, dtype, device }] of own) {
    const given = parameters.get(name);
    const isAlike = given !== undefined && `${given.shape}` === `${shape}` && given.dtype === dtype;
    if (isAlike && given.device === device) continue;
    const got = given === undefined ? "none" : `${given.dtype} [${given.shape.join(", ")}] on ${given.device}`;
    throw new RerollError(
      "WEIGHTS_MISMATCH",
      `The engine's model has ${name} as ${dtype} [${shape.join(", ")}] on ${device}, and was lent ${got}. Models that share weights are of one shape, type and device.`,
    );
  }
  noGrad(() => {
    for (const [name, parameter] of own) setData(parameter, parameters.get(name)!);
  });
}

const setData = op("aten::set_data");
