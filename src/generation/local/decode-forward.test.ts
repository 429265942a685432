import { expect, test } from "vitest";
import type { DecoderFeatures } from "../../models/causal-lm/decoder-features.ts";
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

/** A feature that no code knows, as a new family would bring it. */
const unheardOf: DecoderFeatures = { ...tinyConfig("qwen3").features, ...{ attentionWobble: 50 } };

const recurrent = ["qwen3_next", "qwen3_5_text"];

test.each(familyNames)(
  "%s decodes through CUDA graphs unless its layers carry a state from token to token",
  (family) => {
    const plain = tinyConfig(family, fitting);
    const sliding = tinyConfig(family, { ...fitting, features: { slidingWindow: 8 } });
    const cache = cacheOnGpu(plain);
    const isServed = !recurrent.includes(family);
    expect([canDecodeOnGpu(plain, cache), canDecodeOnGpu(sliding, cache)]).toEqual([isServed, isServed]);
    cache.dispose();
  },
);

test.each([
  [64, true],
  [96, false],
  [128, true],
  [256, true],
])("heads of %i values are served: %s", (headSize, isServed) => {
  const config = tinyConfig("llama", { ...fitting, headSize });
  const cache = cacheOnGpu(config);
  expect(canDecodeOnGpu(config, cache)).toBe(isServed);
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
