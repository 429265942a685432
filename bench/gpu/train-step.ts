/**
 * A training step (forward, loss, backward, clip, AdamW) of a Qwen2.5 shape on one GPU, beside Hugging Face transformers in the same run. Each form
 * has a process of its own: its peak is nobody else's.
 *
 * Usage: sh run.sh train-step [--shape 0.5B] [--rows 16] [--length 1024] [--steps 10] [--only packed,recomputed] [--moments 8-bit]
 *   [--hf bench/python/hf_train_step.py] [--compiled] [--usual-products] [--out file.json]. Without a GPU: a tiny shape, to see that it runs.
 */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { buildRecipe } from "../../src/algorithms/recipes/table.ts";
import type { TokenBatch } from "../../src/flow/token-batch.ts";
import { packedLayout, paddedLayout, type TokenLayout } from "../../src/models/causal-lm/token-layout.ts";
import { tokenLogprobs, weightedCrossEntropy } from "../../src/models/causal-lm/token-logprobs.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { arange, full, randint, randn } from "../../src/torch/create.ts";
import {
  CudaEvent,
  cudaDeviceCount,
  cudaMemory,
  cudaProperties,
  emptyCudaCache,
  resetCudaPeak,
} from "../../src/torch/cuda.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { boundGradNorm } from "../../src/torch/optim/clip-grad-norm.ts";
import type { MomentFormat } from "../../src/torch/optim/moment.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { tuneProducts } from "../../src/torch/tuned-products.ts";
import { LossForesight } from "../../src/training/foresee-loss.ts";
import { toGrid } from "../../src/training/token-rows.ts";
import { createShape, shapes } from "./qwen-shape.ts";

const { values } = parseArgs({
  options: {
    shape: { type: "string", default: "0.5B" },
    rows: { type: "string", default: "16" },
    length: { type: "string", default: "1024" },
    steps: { type: "string", default: "10" },
    hf: { type: "string" },
    compiled: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    moments: { type: "string", default: "full" },
    /** Products as libtorch makes them: see tuneProducts. */
    "usual-products": { type: "boolean", default: false },
    /** Measures this form here, and prints it: what the others are started with. */
    form: { type: "string" },
    out: { type: "string" },
  },
});
const isOnGpu = cudaDeviceCount() > 0;
const place = isOnGpu
  ? ({ device: "cuda", dtype: "bfloat16" } as const)
  : ({ device: "cpu", dtype: "float32" } as const);
const { device } = place;
const [B, T, steps] = isOnGpu ? [Number(values.rows), Number(values.length), Number(values.steps)] : [2, 8, 2];
const tiny = { vocab_size: 512, hidden_size: 28, intermediate_size: 64, num_hidden_layers: 2 };
const named = shapes[values.shape as keyof typeof shapes];
const shape = (
  isOnGpu ? named : { ...named, ...tiny, num_attention_heads: 14, num_key_value_heads: 2 }
) as typeof named;
const momentFormats: Readonly<Record<string, MomentFormat>> = { full: "full", "8-bit": "8-bit" };
/** Dense bfloat16 products of an H200, as measured. */
const PEAK_FLOPS = 790e12;

interface Measured {
  readonly name: string;
  readonly msPerStep: number;
  readonly tokensPerSecond: number;
  readonly peakGB: number;
  readonly lastLoss: number;
  /** 6 FLOP per parameter and token, without those of attention and of what is computed again, as a share of what the GPU can do. */
  readonly shareOfPeak?: number;
}

const forms: Readonly<Record<string, () => Omit<Measured, "name">>> = {
  "reroll, cross-entropy": () => measureOurs({}),
  "reroll, packed": () => measureOurs({ isPacked: true }),
  "reroll, policy-gradient form": () => measureOurs({ policy: "own anchor" }),
  "reroll, packed, policy-gradient form": () => measureOurs({ isPacked: true, policy: "own anchor" }),
  "reroll, policy-gradient form, with ratios": () => measureOurs({ policy: "ratios" }),
  "reroll, policy-gradient form, scores twice": () => measureOurs({ policy: "two passes" }),
  "reroll, recomputed": () => measureOurs({ recompute: true }),
  "reroll, forward log-probs only": measureForward,
};
if (!values["usual-products"]) tuneProducts();
if (values.form !== undefined) {
  console.log(JSON.stringify(forms[values.form]!()));
  process.exit(0);
}
const rows: Measured[] = Object.keys(forms)
  .filter((name) => values.only.split(",").some((word) => name.includes(word)))
  .map((name) => ({ name, ...inProcess(name) }));
if (values.hf !== undefined) {
  for (const mode of values.compiled ? ["eager", "compiled"] : ["eager"])
    rows.push(measureHuggingFace(values.hf, mode));
}
for (const row of rows) {
  console.log(
    `${row.name.padEnd(44)} ${row.msPerStep.toFixed(1).padStart(7)} ms  ${Math.round(row.tokensPerSecond).toString().padStart(7)} tok/s  ` +
      `${row.peakGB.toFixed(1).padStart(5)} GB peak  loss ${row.lastLoss.toFixed(4)}` +
      (row.shareOfPeak === undefined ? "" : `  ${(100 * row.shareOfPeak).toFixed(1)} % of the peak`),
  );
}
if (values.out !== undefined) {
  const result = {
    name: "gpu-train-step",
    date: new Date().toISOString(),
    device: isOnGpu ? cudaProperties() : "cpu",
    shape,
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
    ...["shape", "moments", "rows", "length", "steps"].flatMap((key) => [`--${key}`, values[key as "rows"]]),
    ...(values["usual-products"] ? ["--usual-products"] : []),
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
  /**
   * The loss of GRPO: in the only update of a rollout, where the policy is its own anchor; with ratios to an anchor, whose gradients are
   * foreseen; and with gradients that are awaited, so that scores are computed twice. Default: cross-entropy.
   */
  readonly policy?: "own anchor" | "ratios" | "two passes";
}

function measureOurs({ recompute = false, isPacked = false, policy }: Variant): Omit<Measured, "name"> {
  manualSeed(0);
  const model = createShape(shape, place);
  const optimizer = new AdamW(model.namedParameters(), { lr: 1e-5, moments: momentFormats[values.moments]! });
  const ids = randint(0, shape.vocab_size, [B * T], { device });
  const targets = randint(0, shape.vocab_size, [B * T], { device });
  const weights = full([B * T], 1 / (B * T), { device });
  const layoutOf = (): TokenLayout =>
    isPacked ? packedLayout(new Array<number>(B).fill(T), device) : paddedLayout(B, T, device);
  const policyLoss = policy && grpoLoss(policy);
  const step = () =>
    tensorScope(() => {
      const hidden = model.forward(ids, layoutOf(), { recompute });
      const loss =
        policyLoss?.(hidden, model.head, targets) ?? weightedCrossEntropy(hidden, model.head, targets, weights).loss;
      loss.backward();
      optimizer.step(boundGradNorm(model.parameters(), 1).factor);
      optimizer.zeroGrad();
      return loss.detach();
    });
  for (let i = 0; i < 3; i++) step().dispose();
  let lastLoss = Number.NaN;
  const msPerStep = msOf(() => {
    for (let i = 0; i < steps; i++) {
      const loss = step();
      if (i === steps - 1) lastLoss = loss.item();
      loss.dispose();
    }
  });
  const peakGB = isOnGpu ? cudaMemory().peakBytes / 1e9 : 0;
  const embedded = shape.tie_word_embeddings ? 0 : model.embedding.numel;
  const computed = model.parameters().reduce((sum, { numel }) => sum + numel, 0) - embedded;
  model.dispose();
  optimizer.dispose();
  if (isOnGpu) emptyCudaCache();
  const tokensPerSecond = (B * T * 1000) / msPerStep;
  return { msPerStep, tokensPerSecond, peakGB, lastLoss, shareOfPeak: (6 * computed * tokensPerSecond) / PEAK_FLOPS };
}

/** The loss of GRPO over rows of which every token counts, near the anchor. */
function grpoLoss(policy: NonNullable<Variant["policy"]>): (hidden: Tensor, head: Tensor, targets: Tensor) => Tensor {
  const logprobs_BT = full([B, T], -Math.log(shape.vocab_size), { device });
  const batch: TokenBatch = {
    ...{ samplerLogprobs_BT: logprobs_BT, anchorLogprobs_BT: logprobs_BT },
    rewards_BT: randn([B, T], { device }),
    lossMask_BT: full([B, T], 1, { device }).gt(0),
    groupOf: Array.from({ length: B }, (_, row) => row % 2),
    ...{ trajectoryOf: Array.from({ length: B }, (_, row) => row), turnOf: new Array<number>(B).fill(0) },
    isTruncated: new Array<boolean>(B).fill(false),
  };
  const recipe = buildRecipe({ type: "grpo" });
  const scored = recipe.score(batch);
  const rows = policy === "own anchor" ? { ...scored, anchorLogprobs_BT: null } : scored;
  const cells = { cells_N: arange(0, B * T, { device, dtype: "int64" }), numRows: B, numColumns: T };
  const foresight = new LossForesight(recipe);
  return (hidden, head, targets) => {
    const foresee = policy === "two passes" ? undefined : foresight.of(rows, rows.denominators, cells);
    const { logprobs_S, entropy_S } = tokenLogprobs(hidden, head, targets, { ...(foresee && { foresee }) });
    const seen = { policyLogprobs_BT: toGrid(logprobs_S, cells), entropies_BT: toGrid(entropy_S, cells) };
    return recipe.loss({ rows, ...seen }, rows.denominators).loss;
  };
}

/**
 * Time of a step in a row of them: on a GPU from the end of the warm-up there to the end of the last one. A clock on the host would begin with
 * a GPU that waits for the first launches, 2 ms of which steps in a row have none.
 */
function msOf(run: () => void): number {
  if (!isOnGpu) {
    const start = performance.now();
    run();
    return (performance.now() - start) / steps;
  }
  const [start, end] = [new CudaEvent({ hasTiming: true }), new CudaEvent({ hasTiming: true })];
  resetCudaPeak();
  start.record();
  run();
  end.record().synchronize();
  return end.elapsedSince(start) / steps;
}

function measureForward(): Omit<Measured, "name"> {
  const model = createShape(shape, place);
  const ids = randint(0, shape.vocab_size, [B * T], { device });
  const run = () =>
    tensorScope(() =>
      noGrad(() => tokenLogprobs(model.forward(ids, paddedLayout(B, T, device)), model.head, ids).logprobs_S.mean()),
    );
  run().dispose();
  const msPerStep = msOf(() => {
    for (let i = 0; i < steps; i++) run().dispose();
  });
  const peakGB = isOnGpu ? cudaMemory().peakBytes / 1e9 : 0;
  const lastLoss = -run().item();
  model.dispose();
  if (isOnGpu) emptyCudaCache();
  return { msPerStep, tokensPerSecond: (B * T * 1000) / msPerStep, peakGB, lastLoss };
}

function measureHuggingFace(script: string, mode: string): Measured {
  const input = JSON.stringify({ config: shape, rows: B, length: T, steps, mode });
  const output = execFileSync("python3", [script], { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });
  return { name: `Hugging Face, ${mode}`, ...JSON.parse(output.trim().split("\n").at(-1) ?? "{}") };
}
