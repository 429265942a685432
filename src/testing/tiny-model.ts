/** Models of a few thousand random parameters, one per family, for tests. */

import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig, Family } from "../models/causal-lm/config.ts";
import { noGrad } from "../torch/autograd.ts";
import { randn, type TensorOptions } from "../torch/create.ts";
import { Generator } from "../torch/random.ts";
import { tensorScope } from "../torch/scope.ts";

/** A config in which no two sizes are equal by chance, with everything that tells the family from the others. */
export function tinyConfig(family: Family, changes: Partial<CausalLmConfig> = {}): CausalLmConfig {
  const isMixture = family === "qwen3_moe";
  return {
    family,
    vocabSize: 29,
    width: 16,
    numLayers: 2,
    numHeads: 4,
    numKeyValueHeads: 2,
    headSize: 6,
    mlpWidth: 20,
    maxPositions: 64,
    normEps: 1e-6,
    ropeTheta: 10_000,
    ropeScaling: { type: "default" },
    slidingWindow: null,
    tieEmbeddings: family === "qwen2" || family === "qwen3",
    hasQkvBias: family === "qwen2" || family === "llama",
    hasOutputBias: family === "llama",
    hasMlpBias: family === "llama",
    hasHeadNorm: family === "qwen3" || isMixture,
    experts: isMixture ? { numExperts: 5, numActive: 2, width: 8, normalizeWeights: true } : null,
    initializerRange: 0.02,
    bosTokenId: 1,
    eosTokenIds: [2],
    dtype: "float32",
    ...changes,
  };
}

/** A model with every weight away from its usual first value, so that none can be left out unseen. */
export function tinyModel(config: CausalLmConfig, place: TensorOptions & { readonly seed?: number } = {}): CausalLm {
  const { seed = 1, ...options } = place;
  const generator = new Generator(seed);
  const model = new CausalLm(config, options);
  noGrad(() => {
    for (const [path, parameter] of model.namedParameters()) {
      const isNorm = parameter.shape.length === 1 && !path.endsWith("bias");
      tensorScope(() =>
        parameter.copy_(
          randn(parameter.shape, { generator })
            .mul(0.3)
            .add(isNorm ? 1 : 0),
        ),
      );
    }
  });
  generator.dispose();
  return model;
}
