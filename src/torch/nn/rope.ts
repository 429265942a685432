/**
 * Rotary position embedding, in the rotate-half layout of Hugging Face: pair k of a head is (x[k], x[k + K/2]).
 * Su et al. 2021.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { arange, cat, type TensorOptions } from "../create.ts";
import { op } from "../operator.ts";
import { tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";

/** Cosine and sine of every position's angles, each angle twice: once per half of the head. */
export type RopeTables = {
  readonly cos_TK: Tensor;
  readonly sin_TK: Tensor;
};

/**
 * The tables of positions 0 to `positions` - 1: angle of pair k at position t is t * theta^(-2k / headSize). Computed in
 * float32, step by step as Hugging Face does it, since far positions show the rounding; `dtype` converts the result.
 */
export function ropeTables(
  positions: number,
  headSize: number,
  theta: number,
  { dtype = "float32", device = "cpu" }: TensorOptions = {},
): RopeTables {
  if (headSize % 2 !== 0) {
    throw new RerollError("INVALID_ARGUMENT", `headSize must be even for rotary embedding: got ${headSize}.`);
  }
  return tensorScope(() => {
    const pairs_K = arange(0, headSize / 2, { dtype: "float32" }).mul(2);
    const frequencies_K = pow(theta, pairs_K.div(headSize)).reciprocal();
    const angles_TK = arange(0, positions, { dtype: "float32" }).unsqueeze(1).mul(frequencies_K.unsqueeze(0));
    const twice_TK = cat([angles_TK, angles_TK], 1);
    return {
      cos_TK: twice_TK.cos().to(dtype).toDevice(device),
      sin_TK: twice_TK.sin().to(dtype).toDevice(device),
    };
  });
}

/** Rotates queries or keys. The tables have a row for each of the T positions. */
export function applyRope(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor): Tensor {
  const [a, b] = x_BHTK.chunk(2, -1);
  const rotatedHalf_BHTK = cat([b!.neg(), a!], -1);
  const { dtype } = x_BHTK;
  return x_BHTK.mul(cos_TK.to(dtype)).add(rotatedHalf_BHTK.mul(sin_TK.to(dtype)));
}

const pow = op("aten::pow.Scalar");
