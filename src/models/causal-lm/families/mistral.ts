/** Mistral 7B: Llama without biases, whose layers all look back over a sliding window unless it is null. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { defineFamily } from "./family.ts";
import { layerTypes, readWindow, windowKeys } from "./sliding-window.ts";
import { attentionNames, layersName, mlpNames, modelNames } from "./tensor-names.ts";

export const mistral = defineFamily({
  className: "MistralForCausalLM",
  defaultHeadSize: null,
  keys: z.object({ hidden_act: z.literal("silu").default("silu"), ...windowKeys }),
  readFeatures: (own, context) => ({ ...plainFeatures, ...readWindow(own, () => true, context) }),
  writeFeatures: ({ slidingWindow, fullLayers }, { numLayers }) => ({
    hidden_act: "silu",
    sliding_window: slidingWindow,
    ...(fullLayers === null ? {} : { layer_types: layerTypes({ slidingWindow, fullLayers }, numLayers) }),
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...mlpNames } },
  // llama.cpp converts Mistral models to the architecture llama.
  gguf: null,
});
