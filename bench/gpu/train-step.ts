/**
 * A training step (forward, loss, backward, clip, AdamW) of the Qwen2.5-0.5B shape on one GPU, beside Hugging Face
 * transformers in the same run. Each form has a process of its own: its peak is nobody else's.
 *
 * Usage: sh run.sh train-step [--rows 16] [--length 1024] [--steps 10] [--only packed] [--hf bench/python/hf_train_step.py] [--out file.json]
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { packedLayout, paddedLayout, type TokenLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs, weightedCrossEntropy } from "../../src/models/causal-lm/token-logprobs.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { full, randint } from "../../src/torch/create.ts";
import { cudaMemory, cudaProperties, cudaSynchronize, emptyCudaCache, resetCudaPeak } from "../../src/torch/cuda.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { clipGradNorm } from "../../src/torch/optim/clip-grad-norm.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import { createQwenShape, qwenShape } from "./qwen-shape.ts";

const { values } = parseArgs({
  options: {
    rows: { type: "string", default: "16" },
    length: { type: "string", default: "1024" },
    steps: { type: "string", default: "10" },
    hf: { type: "string" },
    compiled: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    /** Measures this form here, and prints it: what the others are started with. */
    form: { type: "string" },
    out: { type: "string" },
  },
});
const [B, T, steps] = [Number(values.rows), Number(values.length), Number(values.steps)];
const device = "cuda";

interface Measured {
  readonly name: string;
  readonly msPerStep: number;
  readonly tokensPerSecond: number;
  readonly peakGB: number;
  readonly lastLoss: number;
}

const forms: Readonly<Record<string, () => Omit<Measured, "name">>> = {
  "reroll, cross-entropy": () => measureOurs({}),
  "reroll, packed": () => measureOurs({ isPacked: true }),
  "reroll, policy-gradient form": () => measureOurs({ isPolicy: true }),
  "reroll, packed, policy-gradient form": () => measureOurs({ isPacked: true, isPolicy: true }),
  "reroll, recomputed": () => measureOurs({ recompute: true }),
  "reroll, forward log-probs only": measureForward,
};
if (values.form !== undefined) {
  console.log(JSON.stringify(forms[values.form]!()));
  process.exit(0);
}
const rows: Measured[] = Object.keys(forms)
  .filter((name) => name.includes(values.only))
  .map((name) => ({ name, ...inProcess(name) }));
if (values.hf !== undefined) {
  for (const mode of values.compiled ? ["eager", "compiled"] : ["eager"])
    rows.push(measureHuggingFace(values.hf, mode));
}
for (const row of rows) {
  console.log(
    `${row.name.padEnd(32)} ${row.msPerStep.toFixed(1).padStart(7)} ms  ${Math.round(row.tokensPerSecond).toString().padStart(7)} tok/s  ` +
      `${row.peakGB.toFixed(1).padStart(5)} GB peak  loss ${row.lastLoss.toFixed(4)}`,
  );
}
if (values.out !== undefined) {
  const result = {
    name: "gpu-train-step",
    date: new Date().toISOString(),
    device: cudaProperties(),
    shape: qwenShape,
    B,
    T,
    rows,
  };
  writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`);
}

function inProcess(form: string): Omit<Measured, "name"> {
  const args = [
    process.argv[1]!,
    "--form",
    form,
    ...["rows", "length", "steps"].flatMap((key) => [`--${key}`, values[key as "rows"]]),
  ];
  const output = execFileSync(process.execPath, [...process.execArgv, ...args], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(output.trim().split("\n").at(-1)!) as Omit<Measured, "name">;
}

interface Variant {
  readonly recompute?: boolean;
  readonly isPacked?: boolean;
  /** Through tokenLogprobs, as a policy loss goes: the scores are computed twice. */
  readonly isPolicy?: boolean;
}

function measureOurs({ recompute = false, isPacked = false, isPolicy = false }: Variant): Omit<Measured, "name"> {
  manualSeed(0);
  const model = createQwenShape({ device, dtype: "bfloat16" });
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-5 });
  const ids = randint(0, qwenShape.vocab_size, [B * T], { device });
  const targets = randint(0, qwenShape.vocab_size, [B * T], { device });
  const weights = full([B * T], 1 / (B * T), { device });
  const layoutOf = (): TokenLayout =>
    isPacked ? packedLayout(new Array<number>(B).fill(T), device) : paddedLayout(B, T, device);
  const step = () =>
    tensorScope(() => {
      const hidden = model.forward(ids, layoutOf(), { recompute });
      const loss = isPolicy
        ? tokenLogprobs(hidden, model.head, targets).logprobs_S.mul(weights).sum().neg()
        : weightedCrossEntropy(hidden, model.head, targets, weights).loss;
      loss.backward();
      clipGradNorm(model.parameters(), 1);
      optimizer.step();
      optimizer.zeroGrad();
      return loss.detach();
    });
  for (let i = 0; i < 3; i++) step().dispose();
  cudaSynchronize();
  resetCudaPeak();
  const start = performance.now();
  let lastLoss = Number.NaN;
  for (let i = 0; i < steps; i++) {
    const loss = step();
    if (i === steps - 1) lastLoss = loss.item();
    loss.dispose();
  }
  cudaSynchronize();
  const msPerStep = (performance.now() - start) / steps;
  const peakGB = cudaMemory().peakBytes / 1e9;
  model.dispose();
  optimizer.dispose?.();
  emptyCudaCache();
  return { msPerStep, tokensPerSecond: (B * T * 1000) / msPerStep, peakGB, lastLoss };
}

function measureForward(): Omit<Measured, "name"> {
  const model = createQwenShape({ device, dtype: "bfloat16" });
  const ids = randint(0, qwenShape.vocab_size, [B * T], { device });
  const run = () =>
    tensorScope(() =>
      noGrad(() => tokenLogprobs(model.forward(ids, paddedLayout(B, T, device)), model.head, ids).logprobs_S.mean()),
    );
  run().dispose();
  cudaSynchronize();
  resetCudaPeak();
  const start = performance.now();
  for (let i = 0; i < steps; i++) run().dispose();
  cudaSynchronize();
  const msPerStep = (performance.now() - start) / steps;
  const peakGB = cudaMemory().peakBytes / 1e9;
  const lastLoss = -run().item();
  model.dispose();
  emptyCudaCache();
  return { msPerStep, tokensPerSecond: (B * T * 1000) / msPerStep, peakGB, lastLoss };
}

function measureHuggingFace(script: string, mode: string): Measured {
  const input = JSON.stringify({ config: qwenShape, rows: B, length: T, steps, mode });
  const output = execFileSync("python3", [script], { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });
  return { name: `Hugging Face, ${mode}`, ...JSON.parse(output.trim().split("\n").at(-1) ?? "{}") };
}
