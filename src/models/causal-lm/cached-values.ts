/** What generation keeps of the tokens it has seen: keys and values of each token, and one state a sequence in layers of linear attention. */
import { bytesOf, type DType } from "../../torch/dtype.ts";
import type { CausalLmConfig } from "./config.ts";
import { linearChannels } from "./gated-delta-net.ts";

/** Whether a layer keeps a state in place of keys and values. */
export function keepsState({ features }: CausalLmConfig, layer: number): boolean {
  return features.linearAttention?.layers[layer] === true;
}

/** The number of keys and values that all layers together keep of each token. Default head size: the model's. */
export function numCachedValues(config: CausalLmConfig, headSize = config.headSize): number {
  return (config.numLayers - numStateLayers(config)) * 2 * config.numKeyValueHeads * headSize;
}

/** The shapes of a sequence's state in a layer of linear attention: see LinearState. Null where a model has no such layer. */
export function stateShapes({
  features,
}: CausalLmConfig): { readonly window: number[]; readonly memory: number[] } | null {
  const { linearAttention } = features;
  if (linearAttention === null) return null;
  const { kernelSize, numValueHeads, keySize, valueSize } = linearAttention;
  return {
    window: [kernelSize - 1, linearChannels(linearAttention)],
    memory: [numValueHeads, keySize, valueSize],
  };
}

/** Bytes of one sequence's state in all layers. */
export function stateBytes(config: CausalLmConfig, dtype: DType): number {
  const shapes = stateShapes(config);
  if (shapes === null) return 0;
  const count = (shape: readonly number[]) => shape.reduce((product, size) => product * size, 1);
  return numStateLayers(config) * (count(shapes.window) * bytesOf(dtype) + count(shapes.memory) * bytesOf("float32"));
}

function numStateLayers({ features }: CausalLmConfig): number {
  return features.linearAttention?.layers.filter((isLinear) => isLinear).length ?? 0;
}
