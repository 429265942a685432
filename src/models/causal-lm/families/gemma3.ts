/**
 * Gemma 3, the models of text alone: norms around attention and MLP and on every head, a GELU gate, scaled embeddings, and layers of
 * a sliding window with a rotation of their own between layers that see everything.
 */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { offsetNormForms } from "../gguf/offset-norms.ts";
import { toHuggingFaceRope } from "../rope-scaling.ts";
import { defineFamily } from "./family.ts";
import { queryScalar, storedQueryScalar } from "./query-scalar.ts";
import { layerTypes, readWindow, windowKeys } from "./sliding-window.ts";
import { attentionNames, headNormNames, layersName, mlpNames, modelNames, outputNormNames } from "./tensor-names.ts";

const rope = z.object({ rope_theta: z.number().positive().nullish() });

const keys = z.object({
  ...windowKeys,
  hidden_size: z.number().positive(),
  hidden_activation: z.literal("gelu_pytorch_tanh").default("gelu_pytorch_tanh"),
  attention_bias: z.boolean().default(false),
  query_pre_attn_scalar: z.number().positive().default(256),
  attn_logit_softcapping: z.null().optional(),
  final_logit_softcapping: z.null().optional(),
  use_bidirectional_attention: z.literal(false).nullish(),
  /** Every layer of this number sees everything, where layer_types is missing. */
  sliding_window_pattern: z.number().int().positive().default(6),
  rope_local_base_freq: z.number().positive().default(10_000),
  rope_parameters: z.object({ sliding_attention: rope.nullish() }).nullish(),
});

export const gemma3 = defineFamily({
  className: "Gemma3ForCausalLM",
  defaultHeadSize: 256,
  keys,
  shareKeys: (json) => ({
    tie_word_embeddings: true,
    rope_theta: 1_000_000,
    ...json,
    rope_parameters: z.object({ full_attention: z.unknown() }).safeParse(json.rope_parameters).data?.full_attention,
  }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    ...readWindow(own, (layer) => (layer + 1) % own.sliding_window_pattern !== 0, context),
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    hasHeadNorm: true,
    hasOffsetNorms: true,
    hasOutputNorms: true,
    hasGeluGate: true,
    embeddingScale: Math.sqrt(own.hidden_size),
    attentionScale: own.query_pre_attn_scalar ** -0.5,
    localRopeTheta: own.rope_parameters?.sliding_attention?.rope_theta ?? own.rope_local_base_freq,
  }),
  writeFeatures: (features, config) => ({
    hidden_activation: "gelu_pytorch_tanh",
    attention_bias: features.hasQkvBias,
    query_pre_attn_scalar: queryScalar(features.attentionScale),
    sliding_window: features.slidingWindow,
    layer_types: layerTypes(features, config.numLayers),
    rope_local_base_freq: features.localRopeTheta,
    rope_parameters: {
      full_attention: toHuggingFaceRope(config),
      sliding_attention: { rope_type: "default", rope_theta: features.localRopeTheta },
    },
  }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: { ...attentionNames, ...headNormNames, ...mlpNames, ...outputNormNames },
  },
  gguf: {
    architecture: "gemma3",
    hasRopeFactors: false,
    storedForms: offsetNormForms,
    readKeys: (settings) => ({
      sliding_window: settings.count("gemma3.attention.sliding_window"),
      rope_local_base_freq: settings.optionalPositive("gemma3.rope.freq_base_swa") ?? 10_000,
      query_pre_attn_scalar: storedQueryScalar(settings, "gemma3", 62),
    }),
  },
});
