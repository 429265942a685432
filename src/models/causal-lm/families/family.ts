/**
 * What tells one model family from another, as data: the shape of the decoder is shared, so a family only says which
 * features it turns on, how its config.json spells them, and what its weights are called.
 *
 * A family is one file in this folder and one line in table.ts. Features are computed in ../causal-lm.ts, which knows no family.
 */
import type { z } from "zod";
import type { RerollError } from "../../../errors/reroll-error.ts";
import type { GgufTensor } from "../../formats/gguf/gguf-header.ts";
import type { GgufSettings } from "../../formats/gguf/gguf-settings.ts";
import type { CausalLmConfig } from "../config.ts";
import type { DecoderFeatures, LayerPart, ModelPart } from "../decoder-features.ts";

/** A model family, as the table holds it. */
export interface ModelFamily {
  /** The class that Hugging Face loads, written as `architectures` of config.json. */
  readonly className: string;
  /** The head size that Hugging Face assumes when config.json has no head_dim; null divides the width by the heads. */
  readonly defaultHeadSize: number | null;
  /** The keys of config.json that are the family's own. */
  readonly keys: z.ZodObject;
  /**
   * Spells a config.json as the keys that all families share: what Hugging Face assumes where one is missing, and what the family
   * says in other words. Without it they are taken as they are.
   */
  readonly shareKeys?: (json: Readonly<Record<string, unknown>>) => Record<string, unknown>;
  /** Reads the features from the family's own keys. */
  readFeatures(own: unknown, context: ReadContext): DecoderFeatures;
  /** Writes the features as the family's own keys: what readFeatures reads back. They replace shared keys of the same name. */
  writeFeatures(features: DecoderFeatures, config: CausalLmConfig): Record<string, unknown>;
  readonly names: FamilyNames;
  /** Null for a family that GGUF files store as another one. */
  readonly gguf: GgufFamily | null;
}

/** The rest of the config, as far as a family may need it. */
export interface ReadContext {
  readonly numLayers: number;
  readonly headSize: number;
  /** Makes the error that names the file. */
  readonly invalid: (reason: string) => RerollError;
}

/** A module's name in Hugging Face checkpoints and in GGUF files. */
export interface TensorName {
  readonly huggingFace: string;
  readonly gguf: string;
}

/** The names of every weight a family can have. The name of a layer's part is relative to its layer. */
interface FamilyNames {
  readonly model: Readonly<Record<ModelPart, TensorName>>;
  /** The prefix of every layer; the number of the layer follows it. */
  readonly layers: TensorName;
  /** The name of an expert's part has a * in place of the expert's number on Hugging Face; GGUF stacks all experts in one tensor. */
  readonly layer: Readonly<Partial<Record<LayerPart, TensorName>>>;
}

/** The form in which GGUF files store a family. */
export interface GgufFamily {
  /** The value of general.architecture, which every metadata key of the model starts with. */
  readonly architecture: string;
  /** Whether a file may hold rope_freqs.weight, from which the scaling of rotary positions is recovered. */
  readonly hasRopeFactors: boolean;
  /** Parts whose values llama.cpp stores in another form than Hugging Face. */
  readonly storedForms: Readonly<Partial<Record<LayerPart | ModelPart, StoredForm>>>;
  /** The family's own keys of config.json, from the metadata and the tensors of a file. */
  readKeys(settings: GgufSettings, tensors: ReadonlyMap<string, GgufTensor>): Record<string, unknown>;
}

/** The head counts that stored forms depend on, in the words of config.json. */
export interface HeadCounts {
  readonly num_attention_heads: number;
  readonly num_key_value_heads: number;
  readonly head_dim: number;
}

/** A form in which llama.cpp stores a weight, and the way back. */
export interface StoredForm {
  /** Says why a tensor of this shape cannot have the form, or null if it can. */
  problemWith(shape: readonly number[], heads: HeadCounts): string | null;
  restore(values: Float32Array, heads: HeadCounts): Float32Array;
}

/** A family as its file writes it, with its keys typed by their schema. */
interface FamilyDefinition<Keys extends z.ZodObject> extends Omit<ModelFamily, "readFeatures"> {
  readonly keys: Keys;
  readFeatures(own: z.infer<Keys>, context: ReadContext): DecoderFeatures;
}

/** Makes a family from its definition. */
export function defineFamily<Keys extends z.ZodObject>(definition: FamilyDefinition<Keys>): ModelFamily {
  const { keys, readFeatures } = definition;
  return { ...definition, readFeatures: (own, context) => readFeatures(keys.parse(own), context) };
}
