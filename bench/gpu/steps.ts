/**
 * The time of one decode step on one GPU, by model shape, number of sequences and tokens in the cache.
 *
 * Usage: sh run.sh steps [--shapes 0.5B,1.5B,7B] [--rows 1,16,64,256,1024] [--lengths 1024,4096,16384] [--out file.json]
 */
import { parseArgs } from "node:util";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { emptyCudaCache } from "../../src/torch/cuda.ts";
import { decodeStepMs } from "./decode-step.ts";
import { createShape, shapes } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "0.5B,1.5B,7B" },
    rows: { type: "string", default: "1,16,64,256,1024" },
    lengths: { type: "string", default: "1024,4096,16384" },
    out: { type: "string" },
  },
});
const numbers = (list: string) => list.split(",").map(Number);
/** Caches that are larger are left out. */
const maxCacheBytes = 90e9;
const report = rowReport("gpu-steps", values.out);

for (const shape of values.shapes.split(",")) {
  const model = createShape(shapes[shape as keyof typeof shapes], { device: "cuda", dtype: "bfloat16" });
  for (const length of numbers(values.lengths)) {
    for (const B of numbers(values.rows)) {
      if (cacheBytes(model, B * length) >= maxCacheBytes) continue;
      const ms = decodeStepMs(model, { numRows: B, length });
      report({ shape, B, length, msPerStep: +ms.toFixed(4), tokensPerSecond: Math.round((B * 1000) / ms) });
    }
  }
  model.dispose();
  emptyCudaCache();
}

function cacheBytes({ config }: CausalLm, numTokens: number): number {
  return numTokens * config.numLayers * config.numKeyValueHeads * config.headSize * 4;
}
