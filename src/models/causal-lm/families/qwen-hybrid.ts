/** Qwen's hybrids: layers of linear attention between layers of gated attention. */
import { z } from "zod";
import type { CausalLmConfig } from "../config.ts";
import { type DecoderFeatures, type LinearAttentionConfig, plainFeatures } from "../decoder-features.ts";
import { toHuggingFaceRope } from "../rope-scaling.ts";
import type { ReadContext } from "./family.ts";
import { partialRotationKeys, readRotarySize, writeRotarySize } from "./partial-rotation.ts";

const size = z.number().int().positive();

/** The keys that all hybrids have. */
export const hybridKeys = {
  hidden_act: z.literal("silu").default("silu"),
  attention_bias: z.boolean().default(false),
  ...partialRotationKeys,
  layer_types: z.array(z.enum(["full_attention", "linear_attention"])).nullish(),
  /** Every layer of this number has full attention, where layer_types is missing. */
  full_attention_interval: size.default(4),
  linear_num_key_heads: size.default(16),
  linear_num_value_heads: size.default(32),
  linear_key_head_dim: size.default(128),
  linear_value_head_dim: size.default(128),
  linear_conv_kernel_dim: size.default(4),
} as const;

type Keys = z.infer<z.ZodObject<typeof hybridKeys>>;

/** The features that all hybrids have. `hasGroupedInput` says how checkpoints of the family hold the projections of linear attention. */
export function readHybrid(own: Keys, hasGroupedInput: boolean, context: ReadContext): DecoderFeatures {
  return {
    ...plainFeatures,
    hasQkvBias: own.attention_bias,
    hasOutputBias: own.attention_bias,
    hasHeadNorm: true,
    hasOffsetNorms: true,
    hasAttentionGate: true,
    rotarySize: readRotarySize(own, 0.25, context),
    linearAttention: readLinearAttention(own, hasGroupedInput, context),
  };
}

/** The keys that are read back as the same features. */
export function writeHybrid(features: DecoderFeatures, config: CausalLmConfig): Record<string, unknown> {
  return {
    hidden_act: "silu",
    attention_bias: features.hasQkvBias,
    ...writeLinearAttention(features, config.numLayers),
    ...writeRotarySize(features.rotarySize, config.headSize, toHuggingFaceRope(config)),
  };
}

function readLinearAttention(
  own: Keys,
  hasGroupedInput: boolean,
  { numLayers, invalid }: ReadContext,
): LinearAttentionConfig | null {
  const types = own.layer_types;
  if (types && types.length !== numLayers) {
    throw invalid(`layer_types must name the kind of every layer: got ${types.length} for ${numLayers} layers`);
  }
  if (own.linear_num_value_heads % own.linear_num_key_heads !== 0) {
    throw invalid(
      "linear_num_value_heads must be a multiple of linear_num_key_heads: " +
        `got ${own.linear_num_value_heads} and ${own.linear_num_key_heads}`,
    );
  }
  const layers = Array.from({ length: numLayers }, (_, layer) =>
    types ? types[layer] === "linear_attention" : (layer + 1) % own.full_attention_interval !== 0,
  );
  if (!layers.includes(true)) return null;
  return {
    layers,
    numKeyHeads: own.linear_num_key_heads,
    numValueHeads: own.linear_num_value_heads,
    keySize: own.linear_key_head_dim,
    valueSize: own.linear_value_head_dim,
    kernelSize: own.linear_conv_kernel_dim,
    hasGroupedInput,
  };
}

function writeLinearAttention({ linearAttention }: DecoderFeatures, numLayers: number): Record<string, unknown> {
  const layer_types = Array.from({ length: numLayers }, (_, layer) =>
    linearAttention?.layers[layer] === true ? "linear_attention" : "full_attention",
  );
  if (linearAttention === null) return { layer_types };
  return {
    layer_types,
    linear_num_key_heads: linearAttention.numKeyHeads,
    linear_num_value_heads: linearAttention.numValueHeads,
    linear_key_head_dim: linearAttention.keySize,
    linear_value_head_dim: linearAttention.valueSize,
    linear_conv_kernel_dim: linearAttention.kernelSize,
  };
}
