/** Qwen2 and Qwen2.5: biases on query, key and value, always; a sliding window where config.json turns it on. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { defineFamily } from "./family.ts";
import { defaultMaxWindowLayers, laterWindowKeys, noWindow, readWindow, writeLaterWindow } from "./sliding-window.ts";
import { attentionNames, layersName, mlpNames, modelNames } from "./tensor-names.ts";

export const qwen2 = defineFamily({
  className: "Qwen2ForCausalLM",
  defaultHeadSize: null,
  keys: z.object({ hidden_act: z.literal("silu").default("silu"), ...laterWindowKeys }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    hasQkvBias: true,
    ...(own.use_sliding_window === true
      ? readWindow(own, (layer) => layer >= (own.max_window_layers ?? defaultMaxWindowLayers), context)
      : noWindow),
  }),
  writeFeatures: (features, { numLayers }) => ({
    hidden_act: "silu",
    ...writeLaterWindow(features, numLayers),
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...mlpNames } },
  gguf: { architecture: "qwen2", hasRopeFactors: false, storedForms: {}, readKeys: () => ({}) },
});
