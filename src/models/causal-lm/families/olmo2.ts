/** OLMo 2: norms of what attention and MLP give and none of what they are given, and norms over all heads together. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { defineFamily } from "./family.ts";
import { attentionNames, headNormNames, layersName, mlpNames, modelNames, outputNormNames } from "./tensor-names.ts";

const { inputNorm: _i, postAttentionNorm: _p, ...projectionNames } = attentionNames;

export const olmo2 = defineFamily({
  className: "Olmo2ForCausalLM",
  defaultHeadSize: null,
  keys: z.object({ hidden_act: z.literal("silu").default("silu"), attention_bias: z.boolean().default(false) }),
  shareKeys: (json) => ({ rms_norm_eps: 1e-5, ...json }),
  readFeatures: ({ attention_bias }) => ({
    ...plainFeatures,
    hasQkvBias: attention_bias,
    hasOutputBias: attention_bias,
    hasJointHeadNorm: true,
    hasOutputNorms: true,
    hasBareInputs: true,
  }),
  writeFeatures: ({ hasQkvBias }) => ({ hidden_act: "silu", attention_bias: hasQkvBias }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...projectionNames,
      ...headNormNames,
      ...mlpNames,
      attentionOutputNorm: outputNormNames.attentionOutputNorm,
      mlpOutputNorm: outputNormNames.mlpOutputNorm,
    },
  },
  gguf: { architecture: "olmo2", hasRopeFactors: false, storedForms: {}, readKeys: () => ({}) },
});
