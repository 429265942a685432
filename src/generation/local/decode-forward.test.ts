import { expect, test } from "vitest";
import { type DecoderFeatures, usedFeatures } from "../../models/causal-lm/decoder-features.ts";
import { familyNames } from "../../models/causal-lm/families/table.ts";
import { tinyConfig, tinyModel } from "../../testing/tiny-model.ts";
import { canDecodeOnGpu } from "./decode-forward.ts";
import { DecodeGraphs } from "./decode-graphs.ts";
import { ModelRunner } from "./model-runner.ts";
import { PagedCache } from "./paged-cache.ts";

/** A config whose sizes fit the kernels. */
const fitting = { width: 256, numHeads: 4, numKeyValueHeads: 2, headSize: 64 } as const;

/** A cache that says it is on a GPU. Nothing here computes with it. */
function cacheOnGpu(config: ReturnType<typeof tinyConfig>): PagedCache {
  const cache = new PagedCache(config, { numBlocks: 2, blockSize: 16, dtype: "bfloat16", device: "cpu" });
  return Object.assign(cache, { device: "cuda" });
}

const known = new Set(["hasQkvBias", "hasOutputBias", "hasMlpBias", "hasHeadNorm", "experts"]);

/** A feature that no code knows, as a new family would bring it. */
const unheardOf: DecoderFeatures = { ...tinyConfig("qwen3").features, ...{ attentionWobble: 50 } };

const served = familyNames.filter(
  (family) => !usedFeatures(tinyConfig(family).features).some((name) => !known.has(name)),
);

test("families with other features than the CUDA decode path computes stay off it", () => {
  expect(served).toEqual(["llama", "mistral", "qwen2", "qwen3", "qwen3_moe"]);
  for (const family of familyNames.filter((name) => !served.includes(name))) {
    const config = tinyConfig(family, fitting);
    const cache = cacheOnGpu(config);
    expect(canDecodeOnGpu(config, cache)).toBe(false);
    cache.dispose();
  }
});

test.each(served)("the CUDA decode path serves %s without a sliding window, and not with one", (family) => {
  const plain = tinyConfig(family, fitting);
  const sliding = tinyConfig(family, { ...fitting, features: { slidingWindow: 8 } });
  const cache = cacheOnGpu(plain);
  expect([canDecodeOnGpu(plain, cache), canDecodeOnGpu(sliding, cache)]).toEqual([true, false]);
  cache.dispose();
});

test("a feature that the CUDA decode path has never heard of keeps the model off it", () => {
  const config = tinyConfig("qwen3", { ...fitting, features: unheardOf });
  const model = tinyModel(config);
  const cache = cacheOnGpu(config);
  expect(canDecodeOnGpu(config, cache)).toBe(false);
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
