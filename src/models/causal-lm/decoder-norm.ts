/** Norms of the decoder, as the features of a model ask for them. */
import type { TensorOptions } from "../../torch/create.ts";
import { RMSNorm } from "../../torch/nn/rms-norm.ts";
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
