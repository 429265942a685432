/**
 * The time of one decode step on one GPU, by model shape, number of sequences and tokens in the cache: steps one after another as the
 * engine launches them, without requests. What a step reads is not computed first: its time does not depend on the values.
 *
 * Usage: sh run.sh steps [--shapes 0.5B,1.5B,7B] [--rows 1,16,64,256,1024] [--lengths 1024,4096,16384] [--out file.json]
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { DecodeGraphs } from "../../src/generation/local/decode-graphs.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import { Sequence } from "../../src/generation/local/sequence.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { cudaProperties, cudaSynchronize, emptyCudaCache } from "../../src/torch/cuda.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { createShape, shapes } from "./qwen-shape.ts";

const { values } = parseArgs({
  options: {
    shapes: { type: "string", default: "0.5B,1.5B,7B" },
    rows: { type: "string", default: "1,16,64,256,1024" },
    lengths: { type: "string", default: "1024,4096,16384" },
    out: { type: "string" },
  },
});
const numbers = (list: string) => list.split(",").map(Number);
const blockSize = 16;
/** Caches that are larger are left out. */
const maxCacheBytes = 90e9;
const results: Record<string, unknown>[] = [];

for (const shape of values.shapes.split(",")) {
  const model = createShape(shapes[shape as keyof typeof shapes], { device: "cuda", dtype: "bfloat16" });
  for (const length of numbers(values.lengths)) {
    for (const B of numbers(values.rows))
      if (cacheBytes(model, B * length) < maxCacheBytes) measure(model, shape, B, length);
  }
  model.dispose();
  emptyCudaCache();
}

function cacheBytes({ config }: CausalLm, numTokens: number): number {
  return numTokens * config.numLayers * config.numKeyValueHeads * config.headSize * 4;
}

function measure(model: CausalLm, shape: string, B: number, length: number): void {
  const numBlocks = length / blockSize;
  const cache = new PagedCache(model.config, {
    numBlocks: B * numBlocks,
    blockSize,
    dtype: "bfloat16",
    device: "cuda",
  });
  cache.allocate();
  const graphs = new DecodeGraphs(model, cache, { maxRunning: B, contextLength: length });
  const sequences = Array.from({ length: B }, (_, row) => {
    const sequence = new Sequence(row, { promptIds: new Int32Array(length), sampling: { maxTokens: 1 } }, row);
    sequence.numComputed = length - 1;
    sequence.blocks = Array.from({ length: numBlocks }, (_, i) => row * numBlocks + i);
    return sequence;
  });
  const launch = () => tensorScope(() => inferenceMode(() => graphs.launch(sequences, null)));
  const repeat = (count: number) => {
    const start = performance.now();
    for (let i = 0; i < count; i++) launch();
    const launchedMs = performance.now() - start;
    cudaSynchronize();
    return { ms: (performance.now() - start) / count, launchedMs: launchedMs / count };
  };
  launch();
  cudaSynchronize();
  const once = repeat(8);
  const { ms } = repeat(Math.max(8, Math.min(100, Math.round(200 / once.ms))));
  report({ shape, B, length, msPerStep: +ms.toFixed(4), tokensPerSecond: Math.round((B * 1000) / ms) });
  graphs.dispose();
  cache.dispose();
  emptyCudaCache();
}

function report(result: Record<string, unknown>): void {
  results.push(result);
  console.log(JSON.stringify(result));
  if (values.out === undefined) return;
  const file = { name: "gpu-steps", date: new Date().toISOString(), device: cudaProperties(), results };
  writeFileSync(values.out, `${JSON.stringify(file, null, 2)}\n`);
}
