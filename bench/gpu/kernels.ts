/**
 * Our CUDA kernels against their composed forms, on random values: the largest difference, and the time of each.
 *
 * Usage: npm run bundle -- bench/gpu/kernels.ts, then sh run.sh kernels [--training] [--parts draws,ends] on the GPU machine. With --training only
 * those of a training step, with --parts those named; all of them take more than a minute, most of it compiling.
 */
import { emptyLike, full, randint, randn } from "../../src/torch/create.ts";
import { CudaEvent, CudaGraph, cudaProperties, cudaSynchronize } from "../../src/torch/cuda.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { rotateKernel } from "../../src/torch/kernels/rotate-kernel.ts";
import { sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import { scoreGradientKernel_, scoreStatisticsKernel } from "../../src/torch/kernels/score-kernel.ts";
import { swigluBackwardKernel, swigluKernel } from "../../src/torch/kernels/swiglu-kernel.ts";
import { manualSeed } from "../../src/torch/random.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { checkDraws } from "./check-draws.ts";
import { checkEnds } from "./check-ends.ts";
import { checkPaged } from "./check-paged.ts";
import { checkProducts } from "./check-products.ts";
import { checkStore } from "./check-store.ts";
import { checkTraining, timeTraining } from "./check-training.ts";

const device = "cuda";
manualSeed(0);
console.log(cudaProperties());

let worst = 0;
type Check = (dtype: DType, report: Report) => void;
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;
const ofTraining = { swiglu: checkSwiglu, scores: checkScores, training: checkTraining } as const;
const ofDecoding = {
  rotate: checkRotate,
  paged: checkPaged,
  store: checkStore,
  draws: checkDraws,
  products: checkProducts,
} as const;
const isTraining = process.argv.includes("--training");
const named = process.argv[process.argv.indexOf("--parts") + 1]?.split(",");
const isAsked = (part: string) => !process.argv.includes("--parts") || named?.includes(part) === true;
const checks: Readonly<Record<string, Check>> = { ...ofTraining, ...(!isTraining && ofDecoding) };
for (const dtype of ["float32", "bfloat16", "float16"] as const)
  for (const [part, check] of Object.entries(checks)) if (isAsked(part)) tensorScope(() => check(dtype, report));
if (!isTraining && isAsked("ends")) tensorScope(() => checkEnds(report));
if (!isTraining && isAsked("times")) tensorScope(timeAll);
if (isAsked("times")) tensorScope(() => timeTraining(time));
console.log(worst <= 1 ? "kernels agree with their composed forms" : "KERNELS DIFFER");
process.exit(worst <= 1 ? 0 : 1);

/** Compares in float64; `tolerance` is for float32, 16-bit types get their rounding on top. */
function report(name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number): void {
  const slack = { bfloat16: 2 ** -8, float16: 2 ** -11 }[dtype as "bfloat16"] ?? 0;
  const scale = Math.max(1e-6, expected.abs().max().item());
  const error = got.to("float64").sub(expected).abs().max().item() / scale;
  worst = Math.max(worst, error / (tolerance + slack));
  console.log(`${name.padEnd(18)} ${dtype.padEnd(9)} relative error ${error.toExponential(2)}`);
}

function checkSwiglu(dtype: DType): void {
  const gateUp = randn([333, 2 * 168], { device })
    .mul(2)
    .to(dtype);
  const grad = randn([333, 168], { device }).to(dtype);
  const [gate, up] = gateUp.to("float64").chunk(2, -1) as [Tensor, Tensor];
  const s = gate.sigmoid();
  const g = grad.to("float64");
  report("swiglu", dtype, swigluKernel(gateUp), gate.mul(s).mul(up), 1e-6);
  const back = swigluBackwardKernel(grad, gateUp);
  report("swiglu d gate", dtype, back.narrow(1, 0, 168), g.mul(up).mul(s).mul(s.neg().add(1).mul(gate).add(1)), 1e-6);
  report("swiglu d up", dtype, back.narrow(1, 168, 168), g.mul(gate).mul(s), 1e-6);
  const again = emptyLike(grad);
  const same = swigluBackwardKernel(grad, gateUp, again);
  report("swiglu again", dtype, again, swigluKernel(gateUp).to("float64"), 1e-12);
  report("swiglu d same", dtype, same, back.to("float64"), 1e-12);
}

function checkRotate(dtype: DType): void {
  const row = randn([77, 18, 64], { device }).to(dtype);
  const angle = randn([77, 32], { device }).mul(3);
  const x = row.narrow(1, 0, 14);
  const [a, b] = x.to("float64").chunk(2, -1) as [Tensor, Tensor];
  for (const sign of [1, -1] as const) {
    const [c, s] = [angle.to("float64").cos().unsqueeze(1), angle.to("float64").sin().mul(sign).unsqueeze(1)];
    const got = rotateKernel(x, angle.cos(), angle.sin(), sign);
    report("rotate first half", dtype, got.narrow(2, 0, 32), a.mul(c).sub(b.mul(s)), 1e-6);
    report("rotate second half", dtype, got.narrow(2, 32, 32), b.mul(c).add(a.mul(s)), 1e-6);
  }
}

function checkScores(dtype: DType): void {
  const [S, V, temperature] = [65, 1512, 0.7];
  const z = randn([S, V], { device }).mul(4).to(dtype);
  const targets = randint(0, V, [S], { device });
  const logp = z.to("float64").div(temperature).logSoftmax(-1);
  const [logprob, entropy, logZ] = scoreStatisticsKernel(z, targets, temperature);
  const expectedEntropy = logp.exp().mul(logp).sum(-1).neg();
  report("score logprob", "float32", logprob, logp.gather(1, targets.unsqueeze(1)).squeeze(1), 1e-5);
  report("score entropy", "float32", entropy, expectedEntropy, 1e-5);
  const [gl, ge] = [randn([S], { device }), randn([S], { device })];
  const p = logp.exp();
  const column = (x: Tensor) => x.to("float64").unsqueeze(1);
  const slope = p.mul(logp.add(column(expectedEntropy)).mul(column(ge)).add(column(gl))).neg();
  const expected = slope
    .scatter(1, targets.unsqueeze(1), slope.gather(1, targets.unsqueeze(1)).add(column(gl)))
    .div(temperature);
  const rows = [targets, logZ, entropy, gl, ge] as const;
  report("score gradient", dtype, scoreGradientKernel_(z.clone(), rows, temperature), expected, 1e-5);
  if (dtype !== "float32") return;
  for (const narrow of ["bfloat16", "float16"] as const)
    report(
      "narrowed score gradient",
      narrow,
      scoreGradientKernel_(z.clone(), rows, temperature, narrow),
      expected,
      1e-5,
    );
}

/** Achieved bandwidth at the sizes of a real step. */
function timeAll(): void {
  const gateUp = randn([16384, 9728], { device, dtype: "bfloat16" });
  const grad = randn([16384, 4864], { device, dtype: "bfloat16" });
  const z = randn([2048, 151936], { device, dtype: "bfloat16" });
  const targets = randint(0, 151936, [2048], { device });
  const [logprob, entropy, logZ] = scoreStatisticsKernel(z, targets, 1);
  const column = (B: number, value: number) => full([B], value, { device });
  for (const B of [1, 16, 64, 256]) {
    const [scores, one_B, cool_B, half_B] = [
      randn([B, 151936], { device }),
      column(B, 1),
      column(B, 0.7),
      column(B, 0.5),
    ];
    time(`draw of ${B} rows`, 4 * scores.numel, () => sampleKernel(scores, one_B, half_B));
    time(`draw of ${B} at 0.7`, 4 * scores.numel, () => sampleKernel(scores, cool_B, half_B));
  }
  const qkv = randn([16384, 18, 64], { device, dtype: "bfloat16" });
  const angle = randn([16384, 32], { device });
  const bytes = (...tensors: Tensor[]) => tensors.reduce((sum, t) => sum + 2 * t.numel, 0);
  time("swiglu forward", bytes(gateUp, grad), () => swigluKernel(gateUp));
  time("swiglu backward", bytes(gateUp, gateUp, grad), () => swigluBackwardKernel(grad, gateUp));
  time("score statistics", bytes(z), () => scoreStatisticsKernel(z, targets, 1));
  const rows = [targets, logZ, entropy, logprob, entropy] as const;
  time("score gradient", bytes(z, z), () => scoreGradientKernel_(z, rows, 1));
  const wide = z.to("float32");
  time("wide score statistics", 2 * bytes(z), () => scoreStatisticsKernel(wide, targets, 1));
  time("narrowed score gradient", 3 * bytes(z), () => scoreGradientKernel_(wide, rows, 1, "bfloat16"));
  time("rotate q", bytes(qkv) * (14 / 18) * 2, () => rotateKernel(qkv.narrow(1, 0, 14), angle, angle, 1));
}

/** The time of a recorded run: launches take the host longer than some of these kernels take the GPU. */
function time(name: string, bytes: number, run: () => unknown): void {
  const repeats = 20;
  tensorScope(run);
  const graph = new CudaGraph();
  graph.capture(() => {
    for (let i = 0; i < repeats; i++) tensorScope(run);
  });
  graph.replay();
  const [start, end] = [new CudaEvent({ hasTiming: true }), new CudaEvent({ hasTiming: true })];
  cudaSynchronize();
  start.record();
  graph.replay();
  end.record();
  cudaSynchronize();
  const ms = end.elapsedSince(start) / repeats;
  console.log(`${name.padEnd(18)} ${ms.toFixed(3)} ms, ${(bytes / ms / 1e9).toFixed(2)} TB/s`);
}
