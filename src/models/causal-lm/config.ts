/**
 * What a causal language model is made of, read from and written as a Hugging Face config.json.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { parseRope, type RopeScaling, ropeSchema, toHuggingFaceRope } from "./rope-scaling.ts";

/** The model families: one decoder, told apart by these names. */
export const families = ["llama", "mistral", "qwen2", "qwen3", "qwen3_moe"] as const;
export type Family = (typeof families)[number];

/** Experts instead of one MLP per layer. */
export interface ExpertsConfig {
  readonly numExperts: number;
  readonly numActive: number;
  readonly width: number;
  /** Whether the weights of the active experts are scaled to sum to 1. */
  readonly normalizeWeights: boolean;
}

export interface CausalLmConfig {
  readonly family: Family;
  readonly vocabSize: number;
  readonly width: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKeyValueHeads: number;
  readonly headSize: number;
  readonly mlpWidth: number;
  readonly maxPositions: number;
  readonly normEps: number;
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
  /** Tokens see at most this many positions back, themselves included; null for all. */
  readonly slidingWindow: number | null;
  readonly tieEmbeddings: boolean;
  readonly hasQkvBias: boolean;
  readonly hasOutputBias: boolean;
  readonly hasMlpBias: boolean;
  /** RMSNorm on every query and key head (Qwen3). */
  readonly hasHeadNorm: boolean;
  readonly experts: ExpertsConfig | null;
  readonly initializerRange: number;
  readonly bosTokenId: number | null;
  readonly eosTokenIds: readonly number[];
  /** The type the weights are stored in. */
  readonly dtype: "float32" | "bfloat16" | "float16";
}

const size = z.number().int().positive();

const huggingFaceSchema = z.object({
  model_type: z.enum(families),
  vocab_size: size,
  hidden_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  intermediate_size: size,
  max_position_embeddings: size,
  rms_norm_eps: z.number().positive().default(1e-6),
  hidden_act: z.literal("silu").default("silu"),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: ropeSchema,
  rope_parameters: ropeSchema,
  partial_rotary_factor: z.literal(1).nullish(),
  sliding_window: size.nullish(),
  use_sliding_window: z.boolean().nullish(),
  max_window_layers: z.number().int().nonnegative().nullish(),
  layer_types: z.array(z.enum(["full_attention", "sliding_attention"])).nullish(),
  tie_word_embeddings: z.boolean().default(false),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  initializer_range: z.number().positive().default(0.02),
  bos_token_id: z.number().int().nullish(),
  eos_token_id: z.union([z.number().int(), z.array(z.number().int())]).nullish(),
  num_experts: size.nullish(),
  num_local_experts: size.nullish(),
  num_experts_per_tok: size.nullish(),
  moe_intermediate_size: size.nullish(),
  norm_topk_prob: z.boolean().default(false),
  decoder_sparse_step: z.number().int().nullish(),
  mlp_only_layers: z.array(z.number()).nullish(),
  dtype: z.string().nullish(),
  torch_dtype: z.string().nullish(),
});

type HuggingFaceConfig = z.infer<typeof huggingFaceSchema>;

/** Reads a parsed config.json. `source` names the file in errors. */
export function parseConfig(json: unknown, source: string): CausalLmConfig {
  const parsed = huggingFaceSchema.safeParse(json);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => describeIssue(json, path, message));
    throw invalid(source, `not a model config we can load. ${issues.join("; ")}`);
  }
  const hf = parsed.data;
  const { numKeyValueHeads, headSize } = headsOf(hf, source);
  const family = hf.model_type;
  return {
    family,
    vocabSize: hf.vocab_size,
    width: hf.hidden_size,
    numLayers: hf.num_hidden_layers,
    numHeads: hf.num_attention_heads,
    numKeyValueHeads,
    headSize,
    mlpWidth: hf.intermediate_size,
    maxPositions: hf.max_position_embeddings,
    normEps: hf.rms_norm_eps,
    ...parseRope(hf, (reason) => invalid(source, reason)),
    slidingWindow: slidingWindowOf(hf, source),
    tieEmbeddings: hf.tie_word_embeddings,
    hasQkvBias: family === "qwen2" || (family !== "mistral" && hf.attention_bias),
    hasOutputBias: family !== "qwen2" && family !== "mistral" && hf.attention_bias,
    hasMlpBias: family === "llama" && hf.mlp_bias,
    hasHeadNorm: family === "qwen3" || family === "qwen3_moe",
    experts: expertsOf(hf, source),
    initializerRange: hf.initializer_range,
    bosTokenId: hf.bos_token_id ?? null,
    eosTokenIds: hf.eos_token_id === null || hf.eos_token_id === undefined ? [] : [hf.eos_token_id].flat(),
    dtype: dtypeOf(hf),
  };
}

/** The config.json that Hugging Face loads as the same model. */
export function toHuggingFaceConfig(config: CausalLmConfig): Record<string, unknown> {
  const { experts } = config;
  const rope = toHuggingFaceRope(config);
  return {
    architectures: [architectures[config.family]],
    model_type: config.family,
    vocab_size: config.vocabSize,
    hidden_size: config.width,
    num_hidden_layers: config.numLayers,
    num_attention_heads: config.numHeads,
    num_key_value_heads: config.numKeyValueHeads,
    head_dim: config.headSize,
    intermediate_size: config.mlpWidth,
    max_position_embeddings: config.maxPositions,
    rms_norm_eps: config.normEps,
    hidden_act: "silu",
    // Both spellings: Hugging Face 5 reads rope_parameters, older versions and other tools the two keys after it.
    rope_parameters: rope,
    rope_theta: config.ropeTheta,
    rope_scaling: config.ropeScaling.type === "default" ? null : rope,
    ...slidingWindowKeys(config),
    tie_word_embeddings: config.tieEmbeddings,
    ...(config.family === "qwen2" || config.family === "mistral" ? {} : { attention_bias: config.hasQkvBias }),
    ...(config.family === "llama" ? { mlp_bias: config.hasMlpBias } : {}),
    initializer_range: config.initializerRange,
    bos_token_id: config.bosTokenId,
    eos_token_id: config.eosTokenIds.length > 1 ? config.eosTokenIds : (config.eosTokenIds[0] ?? null),
    ...(experts === null
      ? {}
      : {
          num_experts: experts.numExperts,
          num_experts_per_tok: experts.numActive,
          moe_intermediate_size: experts.width,
          norm_topk_prob: experts.normalizeWeights,
          decoder_sparse_step: 1,
          mlp_only_layers: [],
        }),
    dtype: config.dtype,
    torch_dtype: config.dtype,
    use_cache: true,
  };
}

const architectures: Readonly<Record<Family, string>> = {
  llama: "LlamaForCausalLM",
  mistral: "MistralForCausalLM",
  qwen2: "Qwen2ForCausalLM",
  qwen3: "Qwen3ForCausalLM",
  qwen3_moe: "Qwen3MoeForCausalLM",
};

function headsOf(hf: HuggingFaceConfig, source: string): { numKeyValueHeads: number; headSize: number } {
  const numHeads = hf.num_attention_heads;
  const numKeyValueHeads = hf.num_key_value_heads ?? numHeads;
  // Hugging Face gives Qwen3 heads of 128 whatever its width.
  const headSize = hf.head_dim ?? (hf.model_type === "qwen3" ? 128 : hf.hidden_size / numHeads);
  if (!Number.isInteger(headSize) || headSize % 2 !== 0) {
    throw invalid(
      source,
      `the head size (head_dim, or hidden_size / num_attention_heads) must be an even integer: got ${headSize}`,
    );
  }
  if (numHeads % numKeyValueHeads !== 0) {
    throw invalid(
      source,
      `num_attention_heads must be a multiple of num_key_value_heads: got ${numHeads} and ${numKeyValueHeads}`,
    );
  }
  return { numKeyValueHeads, headSize };
}

/** What a family's config means by a window that it does not state. */
const defaultWindow = 4096;

function slidingWindowOf(hf: HuggingFaceConfig, source: string): number | null {
  const isUsed = hf.model_type === "mistral" || (hf.model_type !== "llama" && hf.use_sliding_window === true);
  const window = hf.sliding_window === undefined ? defaultWindow : hf.sliding_window;
  if (!isUsed || window === null) return null;
  const types = new Set(layerTypesOf(hf));
  if (types.size > 1) {
    throw invalid(
      source,
      "some layers have full and some sliding attention (layer_types, max_window_layers). Supported: the same for all",
    );
  }
  return types.has("sliding_attention") ? window : null;
}

function layerTypesOf(hf: HuggingFaceConfig): readonly string[] {
  if (hf.layer_types) return hf.layer_types;
  // Of all families only Qwen2 and Qwen3 leave the first layers out; 28 is what Hugging Face takes for a missing key.
  const first = hf.model_type === "qwen2" || hf.model_type === "qwen3" ? (hf.max_window_layers ?? 28) : 0;
  return Array.from({ length: hf.num_hidden_layers }, (_, i) => (i >= first ? "sliding_attention" : "full_attention"));
}

function slidingWindowKeys({ family, slidingWindow, numLayers }: CausalLmConfig): Record<string, unknown> {
  if (family === "llama") return {};
  if (family === "mistral") return { sliding_window: slidingWindow };
  const keys = { sliding_window: slidingWindow, use_sliding_window: slidingWindow !== null };
  if (family === "qwen3_moe") return keys;
  const layerType = slidingWindow === null ? "full_attention" : "sliding_attention";
  return {
    ...keys,
    max_window_layers: slidingWindow === null ? numLayers : 0,
    layer_types: new Array<string>(numLayers).fill(layerType),
  };
}

function expertsOf(hf: HuggingFaceConfig, source: string): ExpertsConfig | null {
  if (hf.model_type !== "qwen3_moe") return null;
  const numExperts = hf.num_experts ?? hf.num_local_experts;
  const numActive = hf.num_experts_per_tok;
  const width = hf.moe_intermediate_size;
  if (!numExperts || !numActive || !width) {
    const got = `${numExperts ?? "none"}, ${numActive ?? "none"} and ${width ?? "none"}`;
    throw invalid(
      source,
      `a qwen3_moe model needs num_experts, num_experts_per_tok and moe_intermediate_size: got ${got}`,
    );
  }
  if (numActive > numExperts) {
    throw invalid(source, `num_experts_per_tok must be at most num_experts: got ${numActive} and ${numExperts}`);
  }
  if ((hf.decoder_sparse_step ?? 1) !== 1 || (hf.mlp_only_layers ?? []).length > 0) {
    throw invalid(
      source,
      `layers without experts are not supported: got decoder_sparse_step ${hf.decoder_sparse_step ?? 1} and ` +
        `mlp_only_layers [${hf.mlp_only_layers ?? ""}]. Supported: 1 and none`,
    );
  }
  return { numExperts, numActive, width, normalizeWeights: hf.norm_topk_prob };
}

function dtypeOf(hf: HuggingFaceConfig): CausalLmConfig["dtype"] {
  const name = hf.dtype ?? hf.torch_dtype;
  return name === "bfloat16" || name === "float16" ? name : "float32";
}

function invalid(source: string, reason: string): RerollError {
  return new RerollError("INVALID_CONFIG", `${source}: ${reason}.`);
}

/** One complaint of the schema with the value it is about. */
function describeIssue(json: unknown, path: readonly PropertyKey[], message: string): string {
  const value = path.reduce<unknown>((at, key) => (isRecord(at) ? at[key] : undefined), json);
  const shown = JSON.stringify(value) ?? "nothing";
  return `${path.join(".") || "config"}: ${message}, got ${shown.length > 60 ? `${shown.slice(0, 60)}...` : shown}`;
}

function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}
