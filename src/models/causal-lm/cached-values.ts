/** The shapes that a layer's cache has for each token. */
import type { CausalLmConfig } from "./config.ts";
import { linearInputWidth } from "./gated-delta-net.ts";

/** Heads and their size. */
type HeadShape = readonly [numHeads: number, headSize: number];

/** What a layer keeps of each token: keys and values; the inputs of linear attention, as one key and no value. */
export function cachedValues(
  config: CausalLmConfig,
  layer: number,
): { readonly keys: HeadShape; readonly values: HeadShape } {
  const { linearAttention } = config.features;
  if (linearAttention?.layers[layer] === true) return { keys: [1, linearInputWidth(linearAttention)], values: [1, 0] };
  const shape = [config.numKeyValueHeads, config.headSize] as const;
  return { keys: shape, values: shape };
}

/** The number of values that all layers together keep of each token. */
export function numCachedValues(config: CausalLmConfig): number {
  return Array.from({ length: config.numLayers }, (_, layer) => {
    const { keys, values } = cachedValues(config, layer);
    return keys[0] * keys[1] + values[0] * values[1];
  }).reduce((sum, count) => sum + count, 0);
}
