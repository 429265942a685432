/** GLM-4 (0414): norms around attention and MLP, gate and up held as one, and neighbors rotated in the first half of each head. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { toHuggingFaceRope } from "../rope-scaling.ts";
import { defineFamily } from "./family.ts";
import { partialRotationKeys, readRotarySize, withoutRotaryShare, writeRotarySize } from "./partial-rotation.ts";
import { attentionNames, jointMlpNames, layersName, modelNames } from "./tensor-names.ts";

export const glm4 = defineFamily({
  className: "Glm4ForCausalLM",
  defaultHeadSize: 128,
  keys: z.object({
    hidden_act: z.literal("silu").default("silu"),
    attention_bias: z.boolean().default(false),
    ...partialRotationKeys,
  }),
  shareKeys: (json) => ({ rms_norm_eps: 1.5625e-7, ...withoutRotaryShare(json) }),
  readFeatures: (own, context) => ({
    ...plainFeatures,
    hasQkvBias: own.attention_bias,
    hasOutputNorms: true,
    hasJointGateUp: true,
    hasNeighborRotation: true,
    rotarySize: readRotarySize(own, 0.5, context),
  }),
  writeFeatures: (features, config) => ({
    // Without it transformers takes the padding token of another vocabulary.
    pad_token_id: null,
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    ...writeRotarySize(features.rotarySize, config.headSize, toHuggingFaceRope(config)),
  }),
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...attentionNames,
      attentionOutputNorm: { huggingFace: "post_self_attn_layernorm", gguf: "post_attention_norm" },
      ...jointMlpNames,
      mlpOutputNorm: { huggingFace: "post_mlp_layernorm", gguf: "post_ffw_norm" },
    },
  },
  gguf: {
    architecture: "glm4",
    hasRopeFactors: false,
    storedForms: {},
    readKeys: (settings, tensors) => ({
      attention_bias: tensors.has("blk.0.attn_q.bias"),
      partial_rotary_factor: settings.rotaryShare("glm4"),
    }),
  },
});
