/**
 * Prefill with the Qwen2.5-0.5B shape on one GPU, through the engine: tokens per second of 256 prompts of 1,024 tokens that are all new,
 * with one token drawn for each.
 *
 * Usage: sh run.sh prefill [--out file.json]
 */
import { parseArgs } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { uniformAt } from "../../src/generation/local/uniform.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { inferenceMode } from "../../src/torch/autograd.ts";
import { randint } from "../../src/torch/create.ts";
import { cudaSynchronize } from "../../src/torch/cuda.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { createQwenShape, qwenShape } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({ options: { out: { type: "string" } } });
const [B, T] = [256, 1024];
const model = createQwenShape({ device: "cuda", dtype: "bfloat16" });
const report = rowReport("gpu-prefill", values.out, { shape: qwenShape });
let numPrompts = 0;

for (const maxStepTokens of [8192, 32_768]) await measureEngine(maxStepTokens);
for (const numTokens of [8192, 32_768]) measureForward(numTokens);

/** The median of three, after one that warms up. */
async function measureEngine(maxStepTokens: number): Promise<void> {
  const engine = new LocalEngine(model, { contextLength: T + 16, maxRunning: B, maxStepTokens });
  const run = async () => {
    const prompts = Array.from({ length: B }, () => {
      const seed = numPrompts++;
      return Int32Array.from({ length: T }, (_, i) => Math.floor(uniformAt(seed, i) * qwenShape.vocab_size));
    });
    cudaSynchronize();
    const start = performance.now();
    await Promise.all(
      prompts.map((promptIds, i) => engine.generate({ promptIds, sampling: { maxTokens: 1, seed: i } })),
    );
    return (B * T * 1000) / (performance.now() - start);
  };
  await run();
  const runs: number[] = [];
  for (let i = 0; i < 3; i++) runs.push(Math.round(await run()));
  report({ what: "engine", maxStepTokens, tokensPerSecond: runs.toSorted((a, b) => a - b)[1], runs });
  await engine.close();
}

/** The forward pass alone, without a cache, scores or anything of the host between: what the engine could reach at most. */
function measureForward(numTokens: number): void {
  const ids = randint(0, qwenShape.vocab_size, [numTokens], { device: "cuda" });
  const lengths = new Array<number>(numTokens / T).fill(T);
  const run = () => tensorScope(() => void inferenceMode(() => model.forward(ids, packedLayout(lengths, "cuda"))));
  run();
  cudaSynchronize();
  const start = performance.now();
  for (let i = 0; i < 5; i++) run();
  const launchedMs = (performance.now() - start) / 5;
  cudaSynchronize();
  const ms = (performance.now() - start) / 5;
  report({ what: "forward alone", numTokens, tokensPerSecond: Math.round((numTokens * 1000) / ms), ms, launchedMs });
}
