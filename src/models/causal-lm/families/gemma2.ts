/**
 * Gemma 2: norms around attention and MLP, a GELU gate, scaled embeddings, soft caps on the scores of attention and of tokens, and a
 * sliding window in every second layer.
 */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { offsetNormForms } from "../gguf/offset-norms.ts";
import { defineFamily } from "./family.ts";
import { queryScalar, storedQueryScalar } from "./query-scalar.ts";
import { layerTypes, readWindow, windowKeys } from "./sliding-window.ts";
import { attentionNames, layersName, mlpNames, modelNames, outputNormNames } from "./tensor-names.ts";

const cap = z.number().positive().nullable();

export const gemma2 = defineFamily({
  className: "Gemma2ForCausalLM",
  defaultHeadSize: 256,
  keys: z.object({
    ...windowKeys,
    hidden_size: z.number().positive(),
    hidden_activation: z.literal("gelu_pytorch_tanh").nullish(),
    attention_bias: z.boolean().default(false),
    query_pre_attn_scalar: z.number().positive().default(256),
    attn_logit_softcapping: cap.default(50),
    final_logit_softcapping: cap.default(30),
    use_bidirectional_attention: z.literal(false).nullish(),
  }),
  shareKeys: (json) => ({ tie_word_embeddings: true, ...json }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    ...readWindow(own, (layer) => layer % 2 === 0, context),
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    hasOffsetNorms: true,
    hasOutputNorms: true,
    hasGeluGate: true,
    embeddingScale: Math.sqrt(own.hidden_size),
    attentionScale: own.query_pre_attn_scalar ** -0.5,
    attentionSoftCap: own.attn_logit_softcapping,
    scoreSoftCap: own.final_logit_softcapping,
  }),
  writeFeatures: (features, config) => ({
    hidden_activation: "gelu_pytorch_tanh",
    attention_bias: features.hasQkvBias,
    query_pre_attn_scalar: queryScalar(features.attentionScale),
    attn_logit_softcapping: features.attentionSoftCap,
    final_logit_softcapping: features.scoreSoftCap,
    sliding_window: features.slidingWindow,
    layer_types: layerTypes(features, config.numLayers),
  }),
  names: { model: modelNames, layers: layersName, layer: { ...attentionNames, ...mlpNames, ...outputNormNames } },
  gguf: {
    architecture: "gemma2",
    hasRopeFactors: false,
    storedForms: offsetNormForms,
    readKeys: (settings) => ({
      sliding_window: settings.count("gemma2.attention.sliding_window"),
      attn_logit_softcapping: settings.optionalPositive("gemma2.attn_logit_softcapping") ?? 50,
      final_logit_softcapping: settings.optionalPositive("gemma2.final_logit_softcapping") ?? 30,
      query_pre_attn_scalar: storedQueryScalar(settings, "gemma2", 46),
    }),
  },
});
