/** Small models to train from scratch: first runs, examples and tests. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { TensorOptions } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { CausalLm } from "./causal-lm.ts";
import type { CausalLmConfig } from "./config.ts";
import { plainFeatures } from "./decoder-features.ts";

interface PresetSize {
  readonly width: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKeyValueHeads: number;
  readonly mlpWidth: number;
  readonly ropeTheta: number;
}

/**
 * Parameters for a vocabulary of 32, and what each further token adds:
 *
 * | preset | parameters | per token |
 * |---|---|---|
 * | nano | 108,928 | 64 |
 * | micro | 857,472 | 128 |
 * | mini | 5,123,712 | 256 |
 * | small | 25,191,936 | 512 |
 *
 * nano turns positions faster than usual: its prompts have some twenty tokens, and neighbors must look different.
 */
export const presetSizes = {
  nano: { width: 64, numLayers: 2, numHeads: 4, numKeyValueHeads: 4, mlpWidth: 192, ropeTheta: 100 },
  micro: { width: 128, numLayers: 4, numHeads: 4, numKeyValueHeads: 4, mlpWidth: 384, ropeTheta: 10_000 },
  mini: { width: 256, numLayers: 6, numHeads: 8, numKeyValueHeads: 8, mlpWidth: 768, ropeTheta: 10_000 },
  small: { width: 512, numLayers: 8, numHeads: 8, numKeyValueHeads: 4, mlpWidth: 1536, ropeTheta: 10_000 },
} as const satisfies Record<string, PresetSize>;

export type PresetName = keyof typeof presetSizes;

/** The config of a preset: Qwen3, whose head norms keep small models stable at high learning rates, with tied embeddings. */
export function presetConfig(name: PresetName, vocabSize: number): CausalLmConfig {
  if (!Object.hasOwn(presetSizes, name)) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `There is no preset "${name}". Choose one of ${Object.keys(presetSizes).join(", ")}.`,
    );
  }
  if (!Number.isInteger(vocabSize) || vocabSize < 1) {
    throw new RerollError("INVALID_ARGUMENT", `vocabSize must be an integer of at least 1: got ${vocabSize}.`);
  }
  const size = presetSizes[name];
  return {
    family: "qwen3",
    vocabSize,
    ...size,
    headSize: size.width / size.numHeads,
    maxPositions: 2048,
    normEps: 1e-6,
    ropeScaling: { type: "default" },
    tieEmbeddings: true,
    features: { ...plainFeatures, hasHeadNorm: true },
    // Matrices that keep the scale of what goes through them: with 0.02, as large models have it, small ones hardly learn.
    initializerRange: size.width ** -0.5,
    bosTokenId: null,
    eosTokenIds: [],
    dtype: "float32",
  };
}

/** A preset with fresh weights: one seed gives the same model on every device. */
export function createPreset(name: PresetName, vocabSize: number, seed: number, place: TensorOptions = {}): CausalLm {
  const generator = new Generator(seed);
  const model = new CausalLm(presetConfig(name, vocabSize), place).initialize(generator);
  generator.dispose();
  return model;
}
