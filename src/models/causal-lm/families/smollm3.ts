/** SmolLM3: Llama, with queries and keys left unrotated in every fourth layer. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { interleavedHeads } from "../gguf/interleaved-heads.ts";
import { defineFamily } from "./family.ts";
import { layerTypes, noWindow, optionalWindowKeys, readWindow, writeOptionalWindow } from "./sliding-window.ts";
import { attentionNames, layersName, mlpNames, modelNames } from "./tensor-names.ts";

export const smollm3 = defineFamily({
  className: "SmolLM3ForCausalLM",
  defaultHeadSize: null,
  keys: z.object({
    ...optionalWindowKeys,
    hidden_act: z.literal("silu").default("silu"),
    attention_bias: z.boolean().default(false),
    mlp_bias: z.boolean().default(false),
    /** For each layer, 1 where it rotates and 0 where it does not. */
    no_rope_layers: z.array(z.number().int().min(0).max(1)).nullish(),
    no_rope_layer_interval: z.number().int().positive().default(4),
  }),
  shareKeys: (json) => ({ tie_word_embeddings: true, rope_theta: 2_000_000, ...json }),
  readFeatures: (own, context) => {
    const { numLayers, invalid } = context;
    const stated = own.no_rope_layers?.map((rotates) => rotates === 0);
    if (stated !== undefined && stated.length !== numLayers) {
      throw invalid(`no_rope_layers must say it of every layer: got ${stated.length} for ${numLayers} layers`);
    }
    const unrotated =
      stated ?? Array.from({ length: numLayers }, (_, layer) => (layer + 1) % own.no_rope_layer_interval === 0);
    return {
      ...plainFeatures,
      ...(own.use_sliding_window === true ? readWindow(own, () => false, context) : noWindow),
      hasQkvBias: own.attention_bias,
      hasOutputBias: own.attention_bias,
      hasMlpBias: own.mlp_bias,
      unrotatedLayers: unrotated.includes(true) ? unrotated : null,
    };
  },
  writeFeatures: (features, { numLayers }) => ({
    // Without it transformers takes the padding token of another vocabulary.
    pad_token_id: null,
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    mlp_bias: features.hasMlpBias,
    ...writeOptionalWindow(features.slidingWindow),
    layer_types: layerTypes(features, numLayers),
    no_rope_layers: Array.from({ length: numLayers }, (_, layer) =>
      features.unrotatedLayers?.[layer] === true ? 0 : 1,
    ),
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...mlpNames } },
  gguf: {
    architecture: "smollm3",
    hasRopeFactors: false,
    storedForms: {
      query: interleavedHeads((heads) => heads.num_attention_heads),
      key: interleavedHeads((heads) => heads.num_key_value_heads),
    },
    // llama.cpp has the fourth layers built in.
    readKeys: (_settings, tensors) => ({ attention_bias: tensors.has("blk.0.attn_q.bias") }),
  },
});
