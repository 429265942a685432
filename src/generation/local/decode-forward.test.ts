import { expect, test } from "vitest";
import type { DecoderFeatures } from "../../models/causal-lm/decoder-features.ts";
import { familyNames } from "../../models/causal-lm/families/table.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import type { DType } from "../../torch/dtype.ts";
import { DecodeGraphs } from "./decode-graphs.ts";
import { decodeProblem } from "./decode-path.ts";
import { ModelRunner } from "./model-runner.ts";
import { PagedCache } from "./paged-cache.ts";

/** A config whose sizes fit the kernels. */
const fitting = { width: 256, numHeads: 4, numKeyValueHeads: 2, headSize: 64 } as const;

/** A cache that says it is on a GPU. Nothing here computes with it. */
function cacheOnGpu(config: ReturnType<typeof tinyConfig>, dtype: DType = "bfloat16"): PagedCache {
  const cache = new PagedCache(config, { numBlocks: 2, blockSize: 16, numStates: 1, dtype, device: "cpu" });
  return Object.assign(cache, { device: "cuda" });
}

interface Sizes {
  readonly headSize: number;
  readonly width: number;
  readonly valueSize: number;
  readonly weights: DType;
}

/** A feature that no code knows, as a new family would bring it. */
const unheardOf: DecoderFeatures = { ...tinyConfig("qwen3").features, ...{ attentionWobble: 50 } };

test.each(familyNames)("%s decodes through CUDA graphs", (family) => {
  const { linearAttention } = tinyConfig(family).features;
  const memory = linearAttention && { ...linearAttention, keySize: 64, valueSize: 32 };
  const plain = tinyConfig(family, { ...fitting, features: { linearAttention: memory } });
  const sliding = { ...plain, features: { ...plain.features, slidingWindow: 8 } };
  const cache = cacheOnGpu(plain);
  expect([decodeProblem(plain, cache), decodeProblem(sliding, cache)]).toEqual([null, null]);
  cache.dispose();
});

test.each([
  { weights: "float32", problem: "its weights are float32, and the CUDA decode path is for 16 bits" },
  { headSize: 320, problem: "its heads of 320 values in blocks of 16 tokens do not fit the kernels" },
  { width: 100, problem: "its width of 100 does not fit the kernels" },
  { valueSize: 48, problem: "linear attention has keys of 64 and values of 48; its kernel takes values of 32, 64" },
] as const)("what keeps a model off the CUDA graphs is said: $problem", ({ problem, ...own }) => {
  const { headSize = 64, width = 256, valueSize = 32, weights = "bfloat16" } = own as Partial<Sizes>;
  const { linearAttention } = tinyConfig("qwen3_next").features;
  const memory = { ...linearAttention!, keySize: 64, valueSize };
  const config = tinyConfig("qwen3_next", { ...fitting, headSize, width, features: { linearAttention: memory } });
  const cache = cacheOnGpu(config, weights);
  expect(decodeProblem(config, cache)).toContain(problem);
  cache.dispose();
});

test("a feature that the CUDA decode path has never heard of keeps the model off it", () => {
  const config = tinyConfig("qwen3", { ...fitting, features: unheardOf });
  const model = tinyModel(config);
  const cache = cacheOnGpu(config);
  expect(decodeProblem(config, cache)).toBe("the CUDA decode path does not compute attentionWobble");
  const runner = new ModelRunner(model, cache, { maxRunning: 1, contextLength: 16, isSteady: false });
  expect(runner.canLaunch).toBe(false);
  runner.dispose();
  cache.dispose();
  model.dispose();
});

test("asked for all the same, it refuses with the names of the feature and the family", () => {
  const config = tinyConfig("qwen3", { ...fitting, features: unheardOf });
  const model = tinyModel(config);
  const cache = cacheOnGpu(config);
  expect(() => new DecodeGraphs(model, cache, { maxRunning: 1, contextLength: 16 })).toThrow(
    "The CUDA decode path does not compute attentionWobble, which this qwen3 model uses. It computes hasQkvBias,",
  );
  cache.dispose();
  model.dispose();
});
