/** The factor on attention scores as Gemma states it: attention is divided by the root of query_pre_attn_scalar. */
import type { GgufSettings } from "../../formats/gguf/gguf-settings.ts";

/** The scalar that stands for this factor, without the dust of taking the root twice. */
export function queryScalar(attentionScale: number | null): number | undefined {
  return attentionScale === null ? undefined : Number((attentionScale ** -2).toPrecision(12));
}

/**
 * The scalar of a GGUF file, which does not hold it. As llama.cpp does, the largest model is known by its number of layers and has the
 * width per head; the others have the head size.
 */
export function storedQueryScalar(settings: GgufSettings, architecture: string, largestNumLayers: number): number {
  const width = settings.count(`${architecture}.embedding_length`);
  const numHeads = settings.count(`${architecture}.attention.head_count`);
  const isLargest = settings.count(`${architecture}.block_count`) === largestNumLayers;
  return isLargest
    ? width / numHeads
    : (settings.optionalCount(`${architecture}.attention.key_length`) ?? width / numHeads);
}
