/**
 * What a causal language model is made of, read from and written as a Hugging Face config.json.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { DecoderFeatures } from "./decoder-features.ts";
import type { ModelFamily } from "./families/family.ts";
import { type Family, families, familyNames } from "./families/table.ts";
import { parseRope, type RopeScaling, ropeSchema, toHuggingFaceRope } from "./rope-scaling.ts";

/** The sizes and features of a model. */
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
  readonly tieEmbeddings: boolean;
  readonly features: DecoderFeatures;
  readonly initializerRange: number;
  readonly bosTokenId: number | null;
  readonly eosTokenIds: readonly number[];
  /** The type the weights are stored in. */
  readonly dtype: "float32" | "bfloat16" | "float16";
}

const size = z.number().int().positive();

/** The keys of config.json that all families share; the others are in the files of families/. */
const sharedKeys = z.object({
  vocab_size: size,
  hidden_size: size,
  num_hidden_layers: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  intermediate_size: size,
  max_position_embeddings: size,
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().positive().nullish(),
  rope_scaling: ropeSchema,
  rope_parameters: ropeSchema,
  partial_rotary_factor: z.literal(1).nullish(),
  tie_word_embeddings: z.boolean().default(false),
  initializer_range: z.number().positive().default(0.02),
  bos_token_id: z.number().int().nullish(),
  eos_token_id: z.union([z.number().int(), z.array(z.number().int())]).nullish(),
  dtype: z.string().nullish(),
  torch_dtype: z.string().nullish(),
});

type SharedKeys = z.infer<typeof sharedKeys>;

/** Reads a parsed config.json. `source` names the file in errors. */
export function parseConfig(json: unknown, source: string): CausalLmConfig {
  const { model_type: family } = parseKeys(z.object({ model_type: z.enum(familyNames) }), json, source);
  const { keys, shareKeys, defaultHeadSize, readFeatures }: ModelFamily = families[family];
  parseKeys(keys, json, source);
  const hf = parseKeys(sharedKeys, isRecord(json) && shareKeys !== undefined ? shareKeys(json) : json, source);
  const heads = readHeads(hf, defaultHeadSize, source);
  const rope = parseRope(hf, (reason) => invalid(source, reason));
  return {
    family,
    vocabSize: hf.vocab_size,
    width: hf.hidden_size,
    numLayers: hf.num_hidden_layers,
    numHeads: hf.num_attention_heads,
    ...heads,
    mlpWidth: hf.intermediate_size,
    maxPositions:
      rope.ropeScaling.type === "longrope" ? rope.ropeScaling.originalMaxPositions : hf.max_position_embeddings,
    normEps: hf.rms_norm_eps,
    ...rope,
    tieEmbeddings: hf.tie_word_embeddings,
    features: readFeatures(json, {
      numLayers: hf.num_hidden_layers,
      headSize: heads.headSize,
      invalid: (reason) => invalid(source, reason),
    }),
    initializerRange: hf.initializer_range,
    bosTokenId: hf.bos_token_id ?? null,
    eosTokenIds: hf.eos_token_id === null || hf.eos_token_id === undefined ? [] : [hf.eos_token_id].flat(),
    dtype: dtypeOf(hf),
  };
}

/** The config.json that Hugging Face loads as the same model. */
export function toHuggingFaceConfig(config: CausalLmConfig): Record<string, unknown> {
  const { className, writeFeatures }: ModelFamily = families[config.family];
  const rope = toHuggingFaceRope(config);
  return {
    architectures: [className],
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
    // Both spellings: Hugging Face 5 reads rope_parameters, older versions and other tools the two keys after it.
    rope_parameters: rope,
    rope_theta: config.ropeTheta,
    rope_scaling: config.ropeScaling.type === "default" ? null : rope,
    tie_word_embeddings: config.tieEmbeddings,
    ...writeFeatures(config.features, config),
    initializer_range: config.initializerRange,
    bos_token_id: config.bosTokenId,
    eos_token_id: config.eosTokenIds.length > 1 ? config.eosTokenIds : (config.eosTokenIds[0] ?? null),
    dtype: config.dtype,
    torch_dtype: config.dtype,
    use_cache: true,
  };
}

/** Parses part of a config.json, or throws an error that lists every complaint. */
function parseKeys<Schema extends z.ZodType>(schema: Schema, json: unknown, source: string): z.infer<Schema> {
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(({ path, message }) => describeIssue(json, path, message));
  throw invalid(source, `not a model config we can load. ${issues.join("; ")}`);
}

function readHeads(hf: SharedKeys, defaultHeadSize: number | null, source: string) {
  const numHeads = hf.num_attention_heads;
  const numKeyValueHeads = hf.num_key_value_heads ?? numHeads;
  const headSize = hf.head_dim ?? defaultHeadSize ?? hf.hidden_size / numHeads;
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

function dtypeOf(hf: SharedKeys): CausalLmConfig["dtype"] {
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
