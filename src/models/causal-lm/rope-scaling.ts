/**
 * How positions turn into rotation angles, read from and written as the rope part of a Hugging Face config.
 *
 * Follows transformers 5: `rope_parameters` or the older `rope_scaling` with `rope_theta` beside it. What we do not
 * compute is refused, never dropped.
 */
import { z } from "zod";
import type { RerollError } from "../../errors/reroll-error.ts";

export type RopeScaling =
  | { readonly type: "default" }
  /** Every frequency divided by the factor. */
  | { readonly type: "linear"; readonly factor: number }
  /** Llama 3.1: low frequencies divided by the factor, high ones kept. */
  | {
      readonly type: "llama3";
      readonly factor: number;
      readonly lowFreqFactor: number;
      readonly highFreqFactor: number;
      readonly originalMaxPositions: number;
    }
  /** YaRN (Peng et al. 2023): as llama3, by the number of turns within the original context, and scaled cos and sin. */
  | {
      readonly type: "yarn";
      readonly factor: number;
      readonly originalMaxPositions: number;
      /** Pairs that turn at least this often within the original context keep their frequency. */
      readonly betaFast: number;
      /** Pairs that turn at most this often have theirs divided by the factor. */
      readonly betaSlow: number;
      /** Factor on cos and sin, and so squared on the attention scores. */
      readonly attentionFactor: number;
      /** Whether the ends of the ramp between the two are rounded outwards to whole pairs. */
      readonly isTruncated: boolean;
    }
  /**
   * LongRoPE (Ding et al. 2024), within the original context: every frequency divided by a factor of its own. Beyond it other factors
   * would hold for all positions of a sequence, so sequences end there.
   */
  | {
      readonly type: "longrope";
      readonly shortFactors: readonly number[];
      /** Kept to be written back; see above. */
      readonly longFactors: readonly number[];
      readonly originalMaxPositions: number;
      readonly attentionFactor: number;
    };

interface Rope {
  readonly ropeTheta: number;
  readonly ropeScaling: RopeScaling;
}

const positive = z.number().positive().nullish();

/** One rope object of a config.json. Strict: an unknown key could change every angle. */
export const ropeSchema = z
  .strictObject({
    rope_type: z.string().nullish(),
    type: z.string().nullish(),
    rope_theta: positive,
    factor: positive,
    low_freq_factor: positive,
    high_freq_factor: positive,
    original_max_position_embeddings: z.number().int().positive().nullish(),
    attention_factor: positive,
    beta_fast: positive,
    beta_slow: positive,
    mscale: z.number().nonnegative().nullish(),
    mscale_all_dim: z.number().nonnegative().nullish(),
    truncate: z.boolean().nullish(),
    partial_rotary_factor: z.literal(1).nullish(),
    short_factor: z.array(z.number().positive()).nullish(),
    long_factor: z.array(z.number().positive()).nullish(),
  })
  .nullish();

type HuggingFaceRope = z.infer<typeof ropeSchema>;

/** The keys of a config.json that rope takes part in. */
interface RopeKeys {
  readonly rope_parameters?: HuggingFaceRope;
  readonly rope_scaling?: HuggingFaceRope;
  readonly rope_theta?: number | null | undefined;
  readonly max_position_embeddings: number;
}

/** Reads the rope part of a config. `invalid` makes the error that names the file. */
export function parseRope(keys: RopeKeys, invalid: (reason: string) => RerollError): Rope {
  const { rope_parameters: parameters, rope_scaling: scaling } = keys;
  if (scaling && parameters && typeOf(scaling) !== typeOf(parameters)) {
    throw invalid(
      `rope_scaling has type "${typeOf(scaling)}" and rope_parameters has "${typeOf(parameters)}". Remove one of the two`,
    );
  }
  const rope = scaling ?? parameters;
  return {
    ropeTheta: rope?.rope_theta ?? parameters?.rope_theta ?? keys.rope_theta ?? 10_000,
    ropeScaling: parseScaling(rope, keys.max_position_embeddings, invalid),
  };
}

/** The rope object that Hugging Face reads as the same angles. */
export function toHuggingFaceRope({ ropeTheta, ropeScaling: rope }: Rope): Record<string, unknown> {
  const common = { rope_type: rope.type, rope_theta: ropeTheta };
  switch (rope.type) {
    case "default":
      return common;
    case "linear":
      return { ...common, factor: rope.factor };
    case "llama3":
      return {
        ...common,
        factor: rope.factor,
        low_freq_factor: rope.lowFreqFactor,
        high_freq_factor: rope.highFreqFactor,
        original_max_position_embeddings: rope.originalMaxPositions,
      };
    case "yarn":
      return {
        ...common,
        factor: rope.factor,
        original_max_position_embeddings: rope.originalMaxPositions,
        beta_fast: rope.betaFast,
        beta_slow: rope.betaSlow,
        attention_factor: rope.attentionFactor,
        truncate: rope.isTruncated,
      };
    case "longrope":
      return {
        ...common,
        short_factor: rope.shortFactors,
        long_factor: rope.longFactors,
        original_max_position_embeddings: rope.originalMaxPositions,
        attention_factor: rope.attentionFactor,
      };
  }
}

function typeOf(rope: HuggingFaceRope): string {
  return rope?.rope_type ?? rope?.type ?? "default";
}

function parseScaling(
  rope: HuggingFaceRope,
  maxPositions: number,
  invalid: (reason: string) => RerollError,
): RopeScaling {
  const type = typeOf(rope);
  const originalMaxPositions = rope?.original_max_position_embeddings ?? maxPositions;
  const needed = (key: "factor" | "low_freq_factor" | "high_freq_factor") => {
    const value = rope?.[key];
    if (typeof value !== "number") throw invalid(`rope scaling "${type}" needs ${key}, a number above 0: got none`);
    return value;
  };
  switch (type) {
    case "default":
      return { type };
    case "linear":
      return { type, factor: needed("factor") };
    case "llama3": {
      const lowFreqFactor = needed("low_freq_factor");
      const highFreqFactor = needed("high_freq_factor");
      if (highFreqFactor <= lowFreqFactor) {
        throw invalid(`high_freq_factor must be above low_freq_factor: got ${highFreqFactor} and ${lowFreqFactor}`);
      }
      return { type, factor: needed("factor"), lowFreqFactor, highFreqFactor, originalMaxPositions };
    }
    case "yarn": {
      const factor = rope?.factor ?? maxPositions / originalMaxPositions;
      const betaFast = rope?.beta_fast ?? 32;
      const betaSlow = rope?.beta_slow ?? 1;
      if (betaFast <= betaSlow) throw invalid(`beta_fast must be above beta_slow: got ${betaFast} and ${betaSlow}`);
      const attentionFactor = rope?.attention_factor ?? defaultAttentionFactor(factor, rope);
      return {
        type,
        factor,
        originalMaxPositions,
        betaFast,
        betaSlow,
        attentionFactor,
        isTruncated: rope?.truncate ?? true,
      };
    }
    case "longrope": {
      const { short_factor: shortFactors, long_factor: longFactors } = rope ?? {};
      if (!shortFactors || !longFactors) {
        throw invalid(`rope scaling "longrope" needs short_factor and long_factor, lists of numbers: got one or none`);
      }
      const factor = rope?.factor ?? maxPositions / originalMaxPositions;
      const usual = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(originalMaxPositions));
      const attentionFactor = rope?.attention_factor ?? usual;
      return { type, shortFactors, longFactors, originalMaxPositions, attentionFactor };
    }
    default:
      throw invalid(`rope scaling "${type}" is not supported. Supported: default, linear, llama3, yarn, longrope`);
  }
}

/** 0.1 ln(factor) + 1, from the YaRN paper; with both mscale keys (DeepSeek) the ratio of two such terms. */
function defaultAttentionFactor(factor: number, rope: HuggingFaceRope): number {
  const term = (scale: number) => (factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1);
  const { mscale, mscale_all_dim: mscaleAllDim } = rope ?? {};
  return mscale && mscaleAllDim ? term(mscale) / term(mscaleAllDim) : term(1);
}
