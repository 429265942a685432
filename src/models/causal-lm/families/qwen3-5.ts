/** Qwen3.5, the dense models of text alone: three layers of linear attention to one of gated attention. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { toHuggingFaceRope } from "../rope-scaling.ts";
import { defineFamily } from "./family.ts";
import { linearAttentionKeys, readLinearAttention, writeLinearAttention } from "./linear-attention.ts";
import { partialRotationKeys, readRotarySize, withoutRotaryShare, writeRotarySize } from "./partial-rotation.ts";
import {
  attentionNames,
  headNormNames,
  layersName,
  linearAttentionNames,
  mlpNames,
  modelNames,
} from "./tensor-names.ts";

/** Where pictures and films stand is of no account for text, whose positions are the same along all axes. */
function withoutAxes(rope: unknown): unknown {
  if (typeof rope !== "object" || rope === null) return rope;
  const { mrope_section: _s, mrope_interleaved: _i, ...rest } = rope as Record<string, unknown>;
  return rest;
}

export const qwen35 = defineFamily({
  className: "Qwen3_5ForCausalLM",
  defaultHeadSize: 256,
  keys: z.object({
    hidden_act: z.literal("silu").default("silu"),
    attention_bias: z.boolean().default(false),
    ...linearAttentionKeys,
    ...partialRotationKeys,
  }),
  shareKeys: (json) => {
    const shared = withoutRotaryShare(json);
    return { ...shared, rope_parameters: withoutAxes(shared.rope_parameters) };
  },
  readFeatures: (own, context) => ({
    ...plainFeatures,
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    hasHeadNorm: true,
    hasOffsetNorms: true,
    hasAttentionGate: true,
    rotarySize: readRotarySize(own, 0.25, context),
    linearAttention: readLinearAttention(own, false, context),
  }),
  writeFeatures: (features, config) => ({
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    ...writeLinearAttention(features, config.numLayers),
    ...writeRotarySize(features.rotarySize, config.headSize, toHuggingFaceRope(config)),
  }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...attentionNames,
      ...headNormNames,
      ...linearAttentionNames,
      linearQkv: { huggingFace: "linear_attn.in_proj_qkv", gguf: "attn_qkv" },
      linearZ: { huggingFace: "linear_attn.in_proj_z", gguf: "attn_gate" },
      linearB: { huggingFace: "linear_attn.in_proj_b", gguf: "ssm_beta" },
      linearA: { huggingFace: "linear_attn.in_proj_a", gguf: "ssm_alpha" },
      ...mlpNames,
    },
  },
  // llama.cpp reorders the heads of linear attention, which we do not undo.
  gguf: null,
});
