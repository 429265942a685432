/** The time of a decode step: steps one after another as the engine launches them, without requests. */
import { DecodeGraphs } from "../../src/generation/local/decode-graphs.ts";
import { PagedCache } from "../../src/generation/local/paged-cache.ts";
import { Sequence } from "../../src/generation/local/sequence.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { cudaSynchronize, emptyCudaCache } from "../../src/torch/cuda.ts";
import { tensorScope } from "../../src/torch/scope.ts";

const blockSize = 16;

interface StepOptions {
  readonly numRows: number;
  /** Tokens in the cache of each row. */
  readonly length: number;
  readonly cacheQuantization?: "fp8" | null;
}

/** Milliseconds of one step. What it reads is not computed first: its time does not depend on the values. */
export function decodeStepMs(model: CausalLm, { numRows, length, cacheQuantization = null }: StepOptions): number {
  const numBlocks = length / blockSize;
  const cache = new PagedCache(model.config, {
    numBlocks: numRows * numBlocks,
    ...{ blockSize, cacheQuantization, dtype: "bfloat16", device: "cuda" },
  });
  cache.allocate();
  const graphs = new DecodeGraphs(model, cache, { maxRunning: numRows, contextLength: length });
  const sequences = Array.from({ length: numRows }, (_, row) => {
    const sequence = new Sequence(row, { promptIds: new Int32Array(length), sampling: { maxTokens: 1 } }, row);
    sequence.numComputed = length - 1;
    sequence.blocks = Array.from({ length: numBlocks }, (_, i) => row * numBlocks + i);
    return sequence;
  });
  const launch = () => tensorScope(() => inferenceMode(() => graphs.launch(sequences, null)));
  const repeat = (count: number) => {
    const start = performance.now();
    for (let i = 0; i < count; i++) launch();
    cudaSynchronize();
    return (performance.now() - start) / count;
  };
  launch();
  cudaSynchronize();
  const once = repeat(8);
  const ms = repeat(Math.max(8, Math.min(100, Math.round(200 / once))));
  graphs.dispose();
  cache.dispose();
  emptyCudaCache();
  return ms;
}
