/** Phi-3, Phi-3.5 and Phi-4: projections held as one, heads that may be rotated in part, and sliding windows or long rotations. */
import { z } from "zod";
import { plainFeatures } from "../decoder-features.ts";
import { toHuggingFaceRope } from "../rope-scaling.ts";
import { defineFamily } from "./family.ts";
import { partialRotationKeys, readRotarySize, withoutRotaryShare, writeRotarySize } from "./partial-rotation.ts";
import { layerTypes, readWindow, windowKeys } from "./sliding-window.ts";
import { attentionNames, jointMlpNames, layersName, modelNames } from "./tensor-names.ts";

const { query: _q, key: _k, value: _v, ...otherAttentionNames } = attentionNames;

export const phi3 = defineFamily({
  className: "Phi3ForCausalLM",
  defaultHeadSize: null,
  keys: z.object({ hidden_act: z.literal("silu").default("silu"), ...windowKeys, ...partialRotationKeys }),
  shareKeys: (json) => {
    const { original_max_position_embeddings: original, ...shared } = withoutRotaryShare(json);
    // Older files keep the original context beside the scaling and not in it.
    const placed = (rope: unknown) =>
      typeof rope === "object" && rope !== null && ("short_factor" in rope || "long_factor" in rope)
        ? { original_max_position_embeddings: original, ...rope }
        : rope;
    return { ...shared, rope_parameters: placed(shared.rope_parameters), rope_scaling: placed(shared.rope_scaling) };
  },
  readFeatures: (own, context) => ({
    ...plainFeatures,
    ...readWindow({ ...own, sliding_window: own.sliding_window ?? null }, () => true, context),
    rotarySize: readRotarySize(own, 1, context),
    hasJointQkv: true,
    hasJointGateUp: true,
  }),
  writeFeatures: (features, config) => {
    const { ropeScaling, headSize, numLayers } = config;
    const isLong = ropeScaling.type === "longrope";
    return {
      // Without it transformers takes the padding token of another vocabulary.
      pad_token_id: null,
      hidden_act: "silu",
      sliding_window: features.slidingWindow,
      ...(features.fullLayers === null ? {} : { layer_types: layerTypes(features, numLayers) }),
      ...writeRotarySize(features.rotarySize, headSize, toHuggingFaceRope(config)),
      ...(isLong ? { original_max_position_embeddings: ropeScaling.originalMaxPositions } : {}),
    };
  },
  names: {
    model: modelNames,
    layers: layersName,
    layer: {
      ...otherAttentionNames,
      qkv: { huggingFace: "self_attn.qkv_proj", gguf: "attn_qkv" },
      ...jointMlpNames,
    },
  },
  gguf: {
    architecture: "phi3",
    hasRopeFactors: false,
    storedForms: {},
    readKeys: (settings) => ({
      sliding_window: settings.optionalCount("phi3.attention.sliding_window") || null,
      partial_rotary_factor: settings.rotaryShare("phi3"),
    }),
  },
});
