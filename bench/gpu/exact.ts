/**
 * What exact kernels bring and what they cost, on one GPU: the gap between the log-probabilities of the engine and of the trainer for
 * tokens that a model samples, and the speed of decoding and of a training step, with the usual kernels and with exact ones.
 *
 * Usage: sh run.sh exact [--model folder] [--out file.json]. Without a model the shape of Qwen2.5-0.5B with random weights.
 */
import { parseArgs } from "node:util";
import { LocalEngine } from "../../src/generation/local/local-engine.ts";
import { uniformAt } from "../../src/generation/local/uniform.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../../src/models/causal-lm/load-causal-lm.ts";
import { packedLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs } from "../../src/models/causal-lm/token-logprobs.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { full, randn, tensor } from "../../src/torch/create.ts";
import { cudaMemory, cudaSynchronize, resetCudaPeak } from "../../src/torch/cuda.ts";
import { useExactKernels } from "../../src/torch/exact.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { createQwenShape } from "./qwen-shape.ts";
import { rowReport } from "./row-report.ts";

const { values } = parseArgs({ options: { model: { type: "string" }, out: { type: "string" } } });
const device = "cuda";
const model =
  values.model === undefined
    ? createQwenShape({ device, dtype: "bfloat16" })
    : loadCausalLm(values.model, { device, dtype: "bfloat16" });
const { vocabSize } = model.config;
const report = rowReport("gpu-exact", values.out, { model: values.model });

for (const kernels of ["usual", "exact"] as const) {
  if (kernels === "exact") useExactKernels();
  report({ kernels, what: "rows that change with the number of rows", ...countUnsteady(model) });
  report({ kernels, what: "gap", ...(await measureGap()) });
  report({ kernels, what: "training step, packed, policy-gradient form", ...measureStep() });
}

/** Of every product of a layer and of the scores: how many numbers of a few rows differ from those of the same rows among many. */
function countUnsteady({ layers, head }: CausalLm): Record<string, unknown> {
  const [{ attention, mlp }] = layers as unknown as [
    { attention: { qkv: Linear; output: Linear }; mlp: { gateUp: Linear; down: Linear } },
  ];
  const counts = Object.entries({
    qkv: attention.qkv,
    output: attention.output,
    gateUp: mlp.gateUp,
    down: mlp.down,
  }).map(([name, linear]) => [name, differences(linear.weight.size(1), (x) => linear.forward(x))] as const);
  const scores = differences(head.size(1), (x) => model.logits(x), 2048);
  return Object.fromEntries([...counts, ["scores", scores]]);
}

interface Linear {
  readonly weight: Tensor;
  forward(x: Tensor): Tensor;
}

function differences(width: number, product: (x: Tensor) => Tensor, most = 16_384): Record<number, number> {
  return tensorScope(() =>
    noGrad(() => {
      const x = randn([most, width], { device }).to("bfloat16");
      const all = product(x);
      const few = [16, 24, 64, 128, 256, 1024].map((rows) => {
        const unequal = product(x.narrow(0, 0, rows)).ne(all.narrow(0, 0, rows));
        return [rows, unequal.to("int64").sum().item()] as const;
      });
      return Object.fromEntries(few);
    }),
  );
}

/** Sampled tokens through the engine, then the trainer's forward over the same ones. The second pass over the engine is timed. */
async function measureGap(): Promise<Record<string, unknown>> {
  const [B, numTokens] = [64, 256];
  const engine = new LocalEngine(model, { contextLength: 512, maxRunning: B });
  const promptOf = (i: number) =>
    Array.from({ length: 16 + ((7 * i) % 48) }, (_, k) => Math.floor(uniformAt(i, k) * vocabSize));
  const sample = () =>
    Promise.all(
      Array.from({ length: B }, (_, i) =>
        engine.generate({ promptIds: promptOf(i), sampling: { maxTokens: numTokens, seed: i, temperature: 0.9 } }),
      ),
    );
  await sample();
  const start = performance.now();
  const generations = await sample();
  const ms = performance.now() - start;
  const rows = generations.map(({ tokenIds }, i) => [...promptOf(i), ...tokenIds]);
  const trained = tensorScope(() =>
    noGrad(() => {
      const ids = (lists: number[][]) =>
        tensor(Int32Array.from(lists.flat()), [lists.flat().length], { device, dtype: "int64" });
      const lengths = rows.map((row) => row.length - 1);
      const hidden = model.forward(ids(rows.map((row) => row.slice(0, -1))), packedLayout(lengths, device));
      const targets = ids(rows.map((row) => row.slice(1)));
      return tokenLogprobs(hidden, model.head, targets, { temperature: 0.9 }).logprobs_S.toFloat32Array();
    }),
  );
  let at = 0;
  const gaps = generations.flatMap(({ samplerLogprobs }, i) => {
    at += rows[i]!.length - 1;
    const own = trained.subarray(at - samplerLogprobs.length, at);
    return Array.from(samplerLogprobs, (logprob, t) => Math.abs(logprob - own[t]!));
  });
  await engine.close();
  return {
    tokens: gaps.length,
    meanGap: gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length,
    maxGap: Math.max(...gaps),
    unequal: gaps.filter((gap) => gap !== 0).length,
    firstUnequal: gaps.findIndex((gap) => gap !== 0),
    tokensPerSecond: Math.round((gaps.length * 1000) / ms),
  };
}

/** Forward and backward of 16 rows of 1,024 tokens. */
function measureStep(): Record<string, unknown> {
  const [B, T] = [16, 1024];
  const numbers = Int32Array.from({ length: B * T }, (_, i) => Math.floor(uniformAt(3, i) * vocabSize));
  const ids = tensor(numbers, [B * T], { device, dtype: "int64" });
  const weights = full([B * T], 1 / (B * T), { device });
  let gradient = Number.NaN;
  const step = () =>
    tensorScope(() => {
      const hidden = model.forward(ids, packedLayout(new Array<number>(B).fill(T), device));
      const { logprobs_S } = tokenLogprobs(hidden, model.head, ids);
      logprobs_S.mul(weights).sum().neg().backward();
      gradient = model.layers[0]!.projections[0]!.weight.grad!.to("float32").square().sum().sqrt().item();
      for (const parameter of model.parameters()) parameter.grad = null;
    });
  for (let i = 0; i < 2; i++) step();
  cudaSynchronize();
  resetCudaPeak();
  const start = performance.now();
  for (let i = 0; i < 5; i++) step();
  cudaSynchronize();
  const ms = (performance.now() - start) / 5;
  return { ms, tokensPerSecond: Math.round((B * T * 1000) / ms), peakGB: cudaMemory().peakBytes / 1e9, gradient };
}
