/** Norms of the decoder, as the features of a model ask for them. */
import type { TensorOptions } from "../../torch/create.ts";
import { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { type NormedStream, residualNorm } from "../../torch/residual-norm.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { type LayerPart, type LayerWeight, wholeWeight } from "./decoder-features.ts";

/** A norm over this many values. */
export function createNorm({ normEps, features }: CausalLmConfig, width: number, place: TensorOptions): RMSNorm {
  return new RMSNorm(width, { eps: normEps, offset: features.hasOffsetNorms ? 1 : 0, ...place });
}

/** The weight of a norm that a layer may have. */
export function optionalNorm(part: LayerPart, norm: RMSNorm | null): LayerWeight[] {
  return norm === null ? [] : [wholeWeight(part, norm.weight)];
}

/** The residual stream with what a part has made of it (null: nothing yet), and what the next part gets to see; without a norm, that is the stream. */
export function normedStream(norm: RMSNorm | null, x_SD: Tensor, made_SD: Tensor | null): NormedStream {
  if (norm !== null && norm.offset === 0) return residualNorm(x_SD, made_SD, norm.weight, norm.eps);
  const sum = made_SD === null ? x_SD : x_SD.add(made_SD);
  return { sum, normed: norm?.forward(sum) ?? sum };
}
