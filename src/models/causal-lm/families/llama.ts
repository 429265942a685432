/** Llama 2 and 3: the plain decoder. Biases only where config.json asks for them. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { interleavedHeads } from "../gguf/interleaved-heads.ts";
import { defineFamily } from "./family.ts";
import { attentionNames, layersName, mlpNames, modelNames } from "./tensor-names.ts";

export const llama = defineFamily({
  className: "LlamaForCausalLM",
  defaultHeadSize: null,
  keys: z.object({
    hidden_act: z.literal("silu").default("silu"),
    attention_bias: z.boolean().default(false),
    mlp_bias: z.boolean().default(false),
  }),
  readFeatures: ({ attention_bias, mlp_bias }) => ({
    ...plainFeatures,
    hasQkvBias: attention_bias,
    hasOutputBias: attention_bias,
    hasMlpBias: mlp_bias,
  }),
  writeFeatures: ({ hasQkvBias, hasMlpBias }) => ({
    hidden_act: "silu",
    attention_bias: hasQkvBias,
    mlp_bias: hasMlpBias,
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...mlpNames } },
  gguf: {
    architecture: "llama",
    hasRopeFactors: true,
    storedForms: {
      query: interleavedHeads((heads) => heads.num_attention_heads),
      key: interleavedHeads((heads) => heads.num_key_value_heads),
    },
    readKeys: (_settings, tensors) => ({
      attention_bias: tensors.has("blk.0.attn_q.bias"),
      mlp_bias: tensors.has("blk.0.ffn_down.bias"),
    }),
  },
});
