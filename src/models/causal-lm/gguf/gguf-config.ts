/**
 * Builds the config.json that a GGUF file's model has on Hugging Face, from the file's metadata.
 *
 * Keys are those of transformers 4 (`rope_theta`, `rope_scaling`, `num_experts`), which version 5 reads as well.
 * Anything that would change what the model computes and cannot be said there is an error, never dropped.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import type { GgufHeader } from "../../formats/gguf/gguf-header.ts";
import { GgufSettings } from "../../formats/gguf/gguf-settings.ts";
import { showName } from "../../formats/show-name.ts";
import { familyOfArchitecture, type StoredFamily } from "./gguf-names.ts";
import { type Llama3Rope, recoverLlama3Rope } from "./llama3-rope.ts";

/** The part of a Hugging Face config.json that a GGUF file determines. */
export interface HuggingFaceConfig {
  readonly architectures: readonly [string];
  readonly model_type: string;
  readonly hidden_size: number;
  readonly intermediate_size: number;
  readonly num_hidden_layers: number;
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
  readonly vocab_size: number;
  readonly max_position_embeddings: number;
  readonly rms_norm_eps: number;
  readonly rope_theta: number;
  readonly rope_scaling: RopeScaling | null;
  readonly tie_word_embeddings: boolean;
  readonly bos_token_id?: number;
  readonly eos_token_id?: number;
  /** The family's own keys. */
  readonly [key: string]: unknown;
}

/** A scaling that stretches rotary positions beyond the context the model was first trained with. */
type RopeScaling =
  | { readonly rope_type: "linear"; readonly factor: number }
  | {
      readonly rope_type: "yarn";
      readonly factor: number;
      readonly original_max_position_embeddings: number;
      readonly attention_factor?: number;
      readonly beta_fast?: number;
      readonly beta_slow?: number;
    }
  | Llama3Rope;

/** The family of a file by its architecture, or an error when we have no such family. */
export function ggufFamily(header: GgufHeader, fileName: string): { modelType: string; family: StoredFamily } {
  const architecture = new GgufSettings(header, fileName).text("general.architecture");
  const known = familyOfArchitecture.get(architecture);
  if (known !== undefined) return known;
  const allowed = [...familyOfArchitecture.keys()].join(", ");
  throw unsupported(fileName, `its architecture is ${showName(architecture)}`, allowed);
}

/**
 * Builds the config.
 * @param ropeFactors the values of `rope_freqs.weight`, null where the file has none
 */
export function huggingFaceConfigOf(
  header: GgufHeader,
  ropeFactors: Float32Array | null,
  fileName: string,
): HuggingFaceConfig {
  const { modelType, family } = ggufFamily(header, fileName);
  const { architecture } = family.gguf;
  const settings = new GgufSettings(header, fileName);
  checkComputable(settings, family);
  const hiddenSize = settings.count(`${architecture}.embedding_length`);
  const numHeads = settings.count(`${architecture}.attention.head_count`);
  const numKeyValueHeads = settings.optionalCount(`${architecture}.attention.head_count_kv`) ?? numHeads;
  if (numKeyValueHeads === 0 || numHeads % numKeyValueHeads !== 0) {
    throw settings.invalid(`its ${numHeads} query heads cannot share ${numKeyValueHeads} key heads`);
  }
  const headDim = settings.optionalCount(`${architecture}.attention.key_length`) ?? hiddenSize / numHeads;
  const own = family.gguf.readKeys(settings, header.tensors);
  checkHeadSize(settings, architecture, headDim, "partial_rotary_factor" in own);
  if (ropeFactors !== null && ropeFactors.length !== headDim / 2) {
    throw settings.invalid(`rope_freqs.weight has ${ropeFactors.length} values for heads of ${headDim}`);
  }
  const ropeTheta = settings.optionalPositive(`${architecture}.rope.freq_base`) ?? 10_000;
  return {
    architectures: [family.className],
    model_type: modelType,
    hidden_size: hiddenSize,
    intermediate_size: settings.count(`${architecture}.feed_forward_length`),
    num_hidden_layers: settings.count(`${architecture}.block_count`),
    num_attention_heads: numHeads,
    num_key_value_heads: numKeyValueHeads,
    head_dim: headDim,
    vocab_size: vocabSize(settings, header, family),
    max_position_embeddings: settings.count(`${architecture}.context_length`),
    rms_norm_eps: settings.positive(`${architecture}.attention.layer_norm_rms_epsilon`),
    rope_theta: ropeTheta,
    rope_scaling: ropeScaling(settings, architecture, ropeFactors, ropeTheta),
    tie_word_embeddings: !header.tensors.has(`${family.names.model.head.gguf}.weight`),
    ...specialTokens(settings),
    ...own,
  };
}

/** Refuses files that look like an architecture we map but compute something else. */
function checkComputable(settings: GgufSettings, { gguf: { architecture }, names }: StoredFamily): void {
  const parts = settings.optionalCount("split.count") ?? 1;
  if (parts > 1)
    throw unsupported(settings.fileName, `it is one of ${parts} parts`, "whole files; join them with llama-gguf-split");
  const experts = settings.optionalCount(`${architecture}.expert_count`) ?? 0;
  if (names.layer.router === undefined && experts > 0) {
    const mixtures = [...familyOfArchitecture].filter(([, { family }]) => family.names.layer.router !== undefined);
    throw unsupported(
      settings.fileName,
      `it is a ${architecture} model with ${experts} experts`,
      `${mixtures.map(([name]) => name).join(", ")} for mixtures of experts`,
    );
  }
}

/** Keys and values are of one size, and heads are rotated whole unless the family says which part. */
function checkHeadSize(settings: GgufSettings, architecture: string, headDim: number, isPartial: boolean): void {
  if (!Number.isInteger(headDim) || headDim % 2 !== 0)
    throw settings.invalid(`its head size is ${headDim} and must be even`);
  for (const key of ["attention.value_length", ...(isPartial ? [] : ["rope.dimension_count"])]) {
    const size = settings.optionalCount(`${architecture}.${key}`) ?? headDim;
    if (size !== headDim)
      throw unsupported(settings.fileName, `${architecture}.${key} is ${size}`, `the head size, ${headDim}`);
  }
}

/** The rows of the embedding are the truth; a list of tokens of another length means a damaged or edited file. */
function vocabSize(
  settings: GgufSettings,
  header: GgufHeader,
  { gguf: { architecture }, names }: StoredFamily,
): number {
  const name = `${names.model.embedding.gguf}.weight`;
  const rows = header.tensors.get(name)?.shape[0];
  if (rows === undefined) throw settings.invalid(`it has no tensor "${name}"`);
  const tokens = settings.arrayLength("tokenizer.ggml.tokens");
  const stated = settings.optionalCount(`${architecture}.vocab_size`) ?? tokens ?? rows;
  if (stated !== rows || (tokens ?? rows) !== rows) {
    throw settings.invalid(`its embedding has ${rows} rows for a vocabulary of ${stated} and ${tokens ?? rows} tokens`);
  }
  return rows;
}

function specialTokens(settings: GgufSettings) {
  const bos_token_id = settings.optionalCount("tokenizer.ggml.bos_token_id");
  const eos_token_id = settings.optionalCount("tokenizer.ggml.eos_token_id");
  return {
    ...(bos_token_id === undefined ? {} : { bos_token_id }),
    ...(eos_token_id === undefined ? {} : { eos_token_id }),
  };
}

function ropeScaling(
  settings: GgufSettings,
  architecture: string,
  ropeFactors: Float32Array | null,
  ropeTheta: number,
): RopeScaling | null {
  const prefix = `${architecture}.rope.scaling`;
  const factor =
    settings.optionalPositive(`${prefix}.factor`) ?? settings.optionalPositive(`${architecture}.rope.scale_linear`);
  // llama.cpp reads a factor without a type as linear.
  const type = settings.optionalText(`${prefix}.type`) ?? "linear";
  if (ropeFactors !== null) {
    if ((factor ?? 1) !== 1)
      throw unsupported(settings.fileName, `it has rope_freqs.weight and ${prefix}.factor`, "one of them");
    return llama3Scaling(settings, ropeFactors, ropeTheta);
  }
  if (type === "none" || (type === "linear" && (factor === undefined || factor === 1))) return null;
  if (factor === undefined) throw settings.invalid(`it has ${prefix}.type but no ${prefix}.factor`);
  if (type === "linear") return { rope_type: "linear", factor };
  if (type !== "yarn")
    throw unsupported(settings.fileName, `its ${prefix}.type is ${showName(type)}`, "none, linear, yarn");
  return yarnScaling(settings, architecture, factor);
}

function llama3Scaling(settings: GgufSettings, ropeFactors: Float32Array, ropeTheta: number): RopeScaling | null {
  if (ropeFactors.every((factor) => factor === 1)) return null;
  const rope = recoverLlama3Rope(ropeFactors, ropeTheta);
  if (rope !== null) return rope;
  throw unsupported(
    settings.fileName,
    'the factors in "rope_freqs.weight" are of an unknown kind',
    "factors of Llama 3's scaling",
  );
}

function yarnScaling(settings: GgufSettings, architecture: string, factor: number): RopeScaling {
  const prefix = `${architecture}.rope.scaling`;
  const extrapolation = settings.optionalNumber(`${prefix}.yarn_ext_factor`) ?? 1;
  const logMultiplier = settings.optionalNumber(`${prefix}.yarn_log_multiplier`) ?? 0;
  if (extrapolation !== 1 || logMultiplier !== 0) {
    throw unsupported(
      settings.fileName,
      `it sets ${prefix}.yarn_ext_factor or yarn_log_multiplier`,
      "YaRN without them",
    );
  }
  const attention_factor =
    settings.optionalPositive(`${prefix}.yarn_attn_factor`) ?? settings.optionalPositive(`${prefix}.attn_factor`);
  const beta_fast = settings.optionalPositive(`${prefix}.yarn_beta_fast`);
  const beta_slow = settings.optionalPositive(`${prefix}.yarn_beta_slow`);
  return {
    rope_type: "yarn",
    factor,
    original_max_position_embeddings:
      settings.optionalCount(`${prefix}.original_context_length`) ?? settings.count(`${architecture}.context_length`),
    ...(attention_factor === undefined ? {} : { attention_factor }),
    ...(beta_fast === undefined ? {} : { beta_fast }),
    ...(beta_slow === undefined ? {} : { beta_slow }),
  };
}

function unsupported(fileName: string, what: string, allowed: string): RerollError {
  return new RerollError(
    "GGUF_UNSUPPORTED",
    `${fileName} cannot be loaded: ${what}. Supported: ${allowed}. Otherwise use the safetensors release of the model.`,
    { fileName },
  );
}
