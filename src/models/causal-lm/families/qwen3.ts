/** Qwen3: RMSNorm on every query and key head; a sliding window where config.json turns it on. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { defineFamily } from "./family.ts";
import { defaultMaxWindowLayers, laterWindowKeys, noWindow, readWindow, writeLaterWindow } from "./sliding-window.ts";
import { attentionNames, headNormNames, layersName, mlpNames, modelNames } from "./tensor-names.ts";

export const qwen3 = defineFamily({
  className: "Qwen3ForCausalLM",
  defaultHeadSize: 128,
  keys: z.object({
    hidden_act: z.literal("silu").default("silu"),
    attention_bias: z.boolean().default(false),
    ...laterWindowKeys,
  }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    hasHeadNorm: true,
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    ...(own.use_sliding_window === true
      ? readWindow(own, (layer) => layer >= (own.max_window_layers ?? defaultMaxWindowLayers), context)
      : noWindow),
  }),
  writeFeatures: (features, { numLayers }) => ({
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    ...writeLaterWindow(features, numLayers),
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...headNormNames, ...mlpNames } },
  gguf: {
    architecture: "qwen3",
    hasRopeFactors: false,
    storedForms: {},
    readKeys: (_settings, tensors) => ({ attention_bias: tensors.has("blk.0.attn_q.bias") }),
  },
});
