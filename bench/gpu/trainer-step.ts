/**
 * The time of one training step of a trainer alone on one GPU, from batch to weights: measuring, scoring, passes, clipping, update. For comparing two versions in one run.
 *
 * The shape of Qwen2.5-0.5B with random weights in bfloat16, GRPO over 64 rows of 512 tokens in microbatches of 16,384. Prints every step.
 * npm run bundle -- bench/gpu/trainer-step.ts && sh pack/run.sh trainer-step --tokenizer <folder> [--steps 6] [--offload] [--small]
 */
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { SampleBatch, TokenSample } from "../../src/flow/token-sample.ts";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { parseConfig } from "../../src/models/causal-lm/config.ts";
import { saveCausalLm } from "../../src/models/causal-lm/save-causal-lm.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { cudaDeviceCount, cudaMemory, resetCudaPeak } from "../../src/torch/cuda.ts";
import { op } from "../../src/torch/operator.ts";
import { tuneProducts } from "../../src/torch/tuned-products.ts";
import { TrainerHost } from "../../src/training/trainer-host.ts";
import { trainingOptions } from "../../src/training/trainer-options.ts";
import { qwenShape } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({
  options: {
    tokenizer: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "trainer-step-model") },
    steps: { type: "string", default: "6" },
    offload: { type: "boolean", default: false },
    small: { type: "boolean", default: false },
    out: { type: "string" },
  },
});
if (values.tokenizer === undefined) throw new Error("--tokenizer is missing: a folder with a tokenizer.");
const isOnGpu = cudaDeviceCount() > 0;
const [device, dtype] = isOnGpu ? (["cuda:0", "bfloat16"] as const) : (["cpu", "float32"] as const);
const shape = values.small
  ? { ...qwenShape, hidden_size: 56, intermediate_size: 64, num_hidden_layers: 2, vocab_size: 500 }
  : qwenShape;
const [numRows, numTokens] = values.small ? [8, 32] : [64, 512];
const normal_ = op("aten::normal_");

if (!existsSync(join(values.folder, "config.json"))) {
  const model = new CausalLm(parseConfig(shape, "the shape"), { device, dtype });
  noGrad(() => {
    for (const parameter of model.parameters()) normal_(parameter, parameter.shape.length >= 2 ? 0 : 1, 0.02);
  });
  saveCausalLm(model, values.folder);
  model.dispose();
}
const strategy = values.offload ? { strategy: { offload: "optimizer" } } : {};
const training = trainingOptions.parse({ optimizer: { lr: 1e-6 }, maxTokensPerMicrobatch: 16_384, ...strategy });
tuneProducts();
const trainer = await TrainerHost.create({
  ...{ modelFolder: values.folder, tokenizerFolder: values.tokenizer, device, dtype, lora: null, reference: null },
  ...{ critic: null, algorithm: { type: "grpo" }, training, temperature: 1, seed: 1 },
  length: { numUpdates: 100, updatesPerRolloutStep: 1 },
});
if (isOnGpu) resetCudaPeak(0);
const steps: number[] = [];
for (let step = 0; step < Number(values.steps); step++) {
  const start = performance.now();
  const { metrics } = await trainer.step(batchOf(step));
  steps.push(performance.now() - start);
  console.log(`step ${step}: ${steps.at(-1)!.toFixed(1)} ms, gradient norm ${metrics["train/grad_norm"]}`);
}
const counted = steps.slice(2).sort((a, b) => a - b);
const result = {
  what: `GRPO step, ${numRows} rows of ${numTokens} tokens${values.offload ? ", optimizer in host memory" : ""}`,
  msPerStep: counted[Math.floor(counted.length / 2)],
  tokensPerSecond: (numRows * numTokens * 1000) / counted[Math.floor(counted.length / 2)]!,
  ...(isOnGpu && { peakGB: cudaMemory(0).peakBytes / 1e9 }),
  steps,
};
rowReport("gpu-trainer-step", values.out)(result);
process.exit(0);

function batchOf(step: number): SampleBatch {
  const samples = Array.from({ length: numRows }, (_, row): TokenSample => {
    const tokenIds = Int32Array.from({ length: numTokens }, (_, i) => (7919 * (row + 1) * (i + 3) + 31 * step) % 499);
    const rewards = new Float32Array(numTokens);
    rewards[numTokens - 1] = row % 3;
    return {
      ...{ tokenIds, lossMask: Uint8Array.from(tokenIds, (_, i) => Number(i >= numTokens / 8)) },
      ...{ samplerLogprobs: new Float32Array(numTokens).fill(-6), versions: new Int32Array(numTokens), rewards },
      ...{ group: Math.floor(row / 8), trajectory: row, turn: 0, stateKey: "", isTruncated: false },
    };
  });
  return { samples, version: step };
}
