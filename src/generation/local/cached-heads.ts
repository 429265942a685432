/** Keys and values into a cache that holds 8-bit floats, and out of any cache. */
import { invariant } from "../../errors/reroll-error.ts";
import type { Heads } from "../../models/causal-lm/token-layout.ts";
import { fp8Rounded } from "../../torch/fp8.ts";
import type { PagedFp8Keys } from "../../torch/kernels/paged-fp8-kernel.ts";
import { padHeads } from "../../torch/kernels/paged-kernel.ts";
import { loadFp8Kernel, storeFp8Kernel } from "../../torch/kernels/store-fp8-kernel.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { PagedCache } from "./paged-cache.ts";

/** The slots of tokens, in the types that kernels and operators take. */
interface Slots {
  readonly slots_S: Tensor;
  readonly wideSlots_S: Tensor;
}

/**
 * Puts the rotated keys and values of tokens into their slots. Returns heads for attention within the step: as they are in the cache
 * where that is rounded, and unrounded where it has codes, which is more exact and costs nothing.
 */
export function storeFp8(cache: PagedCache, layer: number, heads: Heads, { slots_S, wideSlots_S }: Slots): Heads {
  const padded = (x_SGK: Tensor) => padHeads(x_SGK, cache.heads.storedSize);
  if (cache.format === "codes") {
    storeFp8Kernel(
      padded(heads.k_SGK).contiguous(),
      padded(heads.v_SGK).contiguous(),
      fp8KeysOf(cache, layer),
      slots_S,
    );
    return heads;
  }
  const { keySlots, valueSlots } = cache.keysOf(layer);
  const [k_SGK, v_SGK] = [fp8Rounded(heads.k_SGK), fp8Rounded(heads.v_SGK)];
  keySlots.indexCopy_(0, wideSlots_S, padded(k_SGK));
  valueSlots.indexCopy_(0, wideSlots_S, padded(v_SGK));
  return { ...heads, k_SGK, v_SGK };
}

/** What the cache has in slots [C], int64: [C, G, K]. */
export function storedHeads(
  cache: PagedCache,
  layer: number,
  slots_C: Tensor,
): { readonly k_CGK: Tensor; readonly v_CGK: Tensor } {
  if (cache.format === "codes") return loadFp8Kernel(fp8KeysOf(cache, layer), slots_C.to("int32"), cache.dtype);
  const { keySlots, valueSlots } = cache.keysOf(layer);
  return { k_CGK: keySlots.indexSelect(0, slots_C), v_CGK: valueSlots.indexSelect(0, slots_C) };
}

/** Codes and scales of a layer. */
export function fp8KeysOf(cache: PagedCache, layer: number): PagedFp8Keys {
  const { keys, values, scales } = cache.keysOf(layer);
  invariant(scales !== null, "a cache without 8-bit floats was asked for them");
  return { keys, values, ...scales };
}
