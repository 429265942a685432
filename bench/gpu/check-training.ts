/** The kernels of a training step against composed forms in float64, and their bandwidth at the sizes of Qwen2.5-0.5B. */
import { noGrad } from "../../src/torch/autograd.ts";
import { full, randint, randn, zeros } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { embeddingGradientKernel } from "../../src/torch/kernels/embedding-kernel.ts";
import { fitsGated, gatedKernel } from "../../src/torch/kernels/gated-kernel.ts";
import { joinHeadsKernel, turnHeadsKernel_ } from "../../src/torch/kernels/heads-kernel.ts";
import { residualNormBackwardKernel, residualNormKernel } from "../../src/torch/kernels/residual-norm-kernel.ts";
import { scaleKernel } from "../../src/torch/kernels/scale-kernel.ts";
import { scoreRowKernel_ } from "../../src/torch/kernels/score-row-kernel.ts";
import { swigluBackwardKernel, swigluKernel } from "../../src/torch/kernels/swiglu-kernel.ts";
import { Parameter } from "../../src/torch/nn/module.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { tokensByRow } from "../../src/torch/rows-at.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

const device = "cuda";

type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

export function checkTraining(dtype: DType, report: Report): void {
  for (const D of [576, 896, 3584]) tensorScope(() => checkNorm(D, dtype, report));
  for (const sizes of [
    { H: 14, G: 2, K: 64 },
    { H: 28, G: 4, K: 128 },
  ])
    tensorScope(() => checkHeads(sizes, dtype, report));
  tensorScope(() => checkAdamW(dtype, report));
  tensorScope(() => checkScale(dtype, report));
  for (const D of [56, 896, 3584]) tensorScope(() => checkEmbedding(D, dtype, report));
  for (const V of [1512, 151936]) tensorScope(() => checkRows(V, dtype, report));
  for (const sizes of [
    { S: 2050, D: 192, N: 512 },
    { S: 4900, D: 896, N: 9728 },
  ])
    tensorScope(() => checkGated(sizes, dtype, report));
}

/** Rows that do not fill the last block, and weights whose random values are large enough for the activation to bend. */
function checkGated({ S, D, N }: { S: number; D: number; N: number }, dtype: DType, report: Report): void {
  const x = randn([S, D], { device }).to(dtype);
  const weight = randn([N, D], { device })
    .mul(2 * D ** -0.5)
    .to(dtype);
  if (!fitsGated(x, weight)) return;
  const { inner_SI, gateUp_SN } = gatedKernel(x, weight, true);
  const gateUp = x.to("float64").mm(weight.to("float64").t());
  report(`gate and up ${D}`, dtype, gateUp_SN!, gateUp, 1e-3);
  // From gate and up as they were rounded.
  const [gate, up] = gateUp_SN!.to("float64").chunk(2, -1) as [Tensor, Tensor];
  report(`gated ${D}`, dtype, inner_SI, gate.mul(gate.sigmoid()).mul(up), 1e-5);
  report(`gated alone ${D}`, dtype, gatedKernel(x, weight, false).inner_SI, inner_SI.to("float64"), 1e-30);
  report(`gated as apart ${D}`, dtype, swigluKernel(gateUp_SN!), inner_SI.to("float64"), 1e-30);
}

/**
 * Three steps beside the same on the CPU. With codes those are of float32: in 16 bits they would be made of rounded moments. Codes may differ by one where a number lies
 * between two, and weights in 16 bits by a rounding per step.
 */
function checkAdamW(dtype: DType, report: Report): void {
  const shape = [1024, 1024];
  for (const moments of ["full", "8-bit"] as const)
    for (const masterWeights of [false, true]) {
      const values = randn(shape).to(dtype);
      const gradients = Array.from({ length: 3 }, () => randn(shape).to(dtype));
      const run = (place: string, type: DType, factor: number) =>
        noGrad(() => {
          const parameter = new Parameter(values.to(type).clone().toDevice(place));
          const optimizer = new AdamW(new Map([["w", parameter]]), { lr: 0.01, masterWeights, moments });
          for (const gradient of gradients) {
            parameter.grad = gradient.mul(factor).to(type).toDevice(place);
            optimizer.step(factor === 1 ? full([], 0.25, { device: place }) : null);
          }
          return parameter.detach().toDevice(device);
        });
      const expected = run("cpu", moments === "full" ? dtype : "float32", 0.25).to("float64");
      const roundings = { bfloat16: 3 * 2 ** -8, float16: 3 * 2 ** -11 }[dtype as "bfloat16"] ?? 5e-4;
      const name = `adamw, ${moments}${masterWeights ? ", copied" : ""}`;
      report(name, dtype, run(device, dtype, 1), expected, masterWeights ? 5e-4 : roundings);
    }
}

function checkScale(dtype: DType, report: Report): void {
  const wide = randn([333, 56], { device });
  const factor = full([], 0.3, { device });
  for (const x of [wide, wide.to(dtype)])
    report(`scaled ${x.dtype}`, dtype, scaleKernel(x, factor, dtype), x.to("float64").mul(factor.to("float64")), 1e-6);
}

/** Half of the tokens have one row, and most rows have no token. */
function checkEmbedding(D: number, dtype: DType, report: Report): void {
  const [S, V] = [1111, 3000];
  const places = randint(0, V, [S], { device }).mul(randint(0, 2, [S], { device }));
  const grad = randn([S, D], { device }).to(dtype);
  const expected = oneHot(places, V).t().mm(grad.to("float64"));
  const { order_S, starts } = tokensByRow(places, V);
  report(`embedding d ${D}`, dtype, embeddingGradientKernel(grad, order_S, starts), expected, 1e-5);
}

/** [S, V] in float64: 1 where the token is. */
function oneHot(places_S: Tensor, V: number): Tensor {
  const zero = zeros([places_S.size(0), V], { device, dtype: "float64" });
  return zero.scatter(1, places_S.unsqueeze(1), zero.narrow(1, 0, 1).add(1));
}

function checkNorm(D: number, dtype: DType, report: Report): void {
  const [S, eps] = [1111, 1e-5];
  const make = (...shape: number[]) => randn(shape, { device }).to(dtype);
  const [x, delta, weight] = [make(S, D), make(S, D), make(D)];
  const [gradNormed, gradSum] = [make(S, D), make(S, D)];
  for (const added of [delta, null]) {
    const [sum, normed] = residualNormKernel(x, added, weight, eps);
    const wide = sum.to("float64");
    const scale = wide.square().mean(-1, true).add(eps).rsqrt();
    const [w, dy] = [weight.to("float64"), gradNormed.to("float64")];
    report(`sum ${D}`, dtype, sum, added === null ? x.to("float64") : x.to("float64").add(delta.to("float64")), 1e-6);
    report(`norm ${D}`, dtype, normed, wide.mul(scale).mul(w), 1e-5);
    const pull = dy.mul(w).mul(wide).mean(-1, true).mul(scale.pow(3));
    const dx = dy.mul(w).mul(scale).sub(wide.mul(pull));
    const dw = dy.mul(wide).mul(scale).sum(0);
    for (const stream of [gradSum, null]) {
      const [gx, gw] = residualNormBackwardKernel(gradNormed, stream, sum, weight, eps);
      report(`norm d x ${D}`, dtype, gx, stream === null ? dx : dx.add(stream.to("float64")), 1e-5);
      report(`norm d w ${D}`, dtype, gw, dw, 1e-5);
    }
  }
}

function checkHeads(sizes: { H: number; G: number; K: number }, dtype: DType, report: Report): void {
  const { H, G, K } = sizes;
  const S = 777;
  const qkv = randn([S, (H + 2 * G) * K], { device }).to(dtype);
  const angle = randn([S, K / 2], { device }).mul(3);
  const [cos, sin] = [angle.cos(), angle.sin()];
  const turned = (x: Tensor, sign: number) => {
    const [a, b] = x.to("float64").chunk(2, -1) as [Tensor, Tensor];
    const [c, s] = [cos.to("float64").unsqueeze(1), sin.to("float64").mul(sign).unsqueeze(1)];
    return [a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s))] as const;
  };
  const before = qkv.view(S, H + 2 * G, K).clone();
  turnHeadsKernel_(qkv, cos, sin, sizes);
  const after = qkv.view(S, H + 2 * G, K);
  for (const [i, half] of turned(before.narrow(1, 0, H + G), 1).entries())
    report("turned heads", dtype, after.narrow(1, 0, H + G).narrow(2, (i * K) / 2, K / 2), half, 1e-6);
  const values = (x: Tensor) => x.narrow(1, H + G, G);
  report("values", dtype, values(after), values(before).to("float64"), 1e-12);
  const grads = [H, G, G].map((heads) => randn([S, heads, K], { device }).to(dtype)) as [Tensor, Tensor, Tensor];
  const [gradient, sums] = joinHeadsKernel(grads, cos, sin, sizes, true);
  const expected = zeros([S, H + 2 * G, K], { device, dtype: "float64" });
  for (const [i, grad] of [grads[0], grads[1]].entries())
    for (const [j, half] of turned(grad, -1).entries())
      expected
        .narrow(1, i * H, grad.size(1))
        .narrow(2, (j * K) / 2, K / 2)
        .copy_(half);
  values(expected).copy_(grads[2].to("float64"));
  report("joined heads", dtype, gradient, expected.view(S, -1), 1e-6);
  report("bias gradient", dtype, sums!, gradient.to("float64").sum(0), 1e-5);
}

function checkRows(V: number, dtype: DType, report: Report): void {
  const [S, temperature] = [37, 0.7];
  const z = randn([S, V], { device }).mul(4).to(dtype);
  const targets = randint(0, V, [S], { device });
  const logp = z.to("float64").div(temperature).logSoftmax(-1);
  const weights = randn([S], { device });
  const column = targets.unsqueeze(1);
  const unit = logp.exp().neg();
  const onTarget = unit.scatter(1, column, unit.gather(1, column).add(1)).div(temperature);
  const narrow = dtype === "float32" ? (["float32", "bfloat16", "float16"] as const) : [dtype];
  for (const type of narrow)
    for (const given of [weights, null]) {
      const { gradient_SV, statistics } = scoreRowKernel_(z.clone(), targets, given, temperature, type);
      const [logprob, entropy, logZ] = statistics;
      const logprobs = logp.gather(1, column).squeeze(1);
      report(`row logprob ${V}`, "float32", logprob, logprobs, 1e-5);
      report(`row entropy ${V}`, "float32", entropy, logp.exp().mul(logp).sum(-1).neg(), 1e-5);
      report(`row log Z ${V}`, "float32", logZ, z.to("float64").div(temperature).logSumExp(-1), 1e-5);
      const expected = given === null ? onTarget : onTarget.mul(weights.to("float64").unsqueeze(1));
      report(`row gradient ${V}`, type, gradient_SV, expected, 1e-5);
      const others = (x: Tensor) => x.to("float64").scatter(1, column, zeros([S, 1], { device, dtype: "float64" }));
      report(`row gradient, others ${V}`, type, others(gradient_SV), others(expected), 1e-5);
    }
}

export function timeTraining(time: (name: string, bytes: number, run: () => unknown) => void): void {
  const [S, D, V] = [16384, 896, 151936];
  const make = (...shape: number[]) => randn(shape, { device, dtype: "bfloat16" });
  const bytes = (...tensors: Tensor[]) => tensors.reduce((sum, t) => sum + 2 * t.numel, 0);
  const [x, delta, grad, weight] = [make(S, D), make(S, D), make(S, D), make(D)];
  time("norm", bytes(x, x), () => residualNormKernel(x, null, weight, 1e-6));
  time("sum and norm", bytes(x, x, x, x), () => residualNormKernel(x, delta, weight, 1e-6));
  time("sum and norm, back", bytes(x, x, x, x), () => residualNormBackwardKernel(grad, delta, x, weight, 1e-6));
  tensorScope(() => {
    const sizes = { H: 14, G: 2, K: 64 };
    const qkv = make(S, 18 * 64);
    const angle = randn([S, 32], { device });
    const grads = [make(S, 14, 64), make(S, 2, 64), make(S, 2, 64)] as const;
    time("turn heads", (32 / 18) * bytes(qkv), () => turnHeadsKernel_(qkv, angle, angle, sizes));
    time("join heads", 2 * bytes(qkv), () => joinHeadsKernel(grads, angle, angle, sizes, true));
  });
  tensorScope(() => {
    const [gateUp, inner, again] = [make(S, 9728), make(S, 4864), make(S, 4864)];
    time("swiglu", bytes(gateUp, inner), () => swigluKernel(gateUp));
    time("swiglu, back", bytes(gateUp, gateUp, inner, inner), () => swigluBackwardKernel(inner, gateUp, again));
  });
  tensorScope(() => {
    const [sums, factor] = [randn([V, D], { device }), full([], 0.3, { device })];
    const places = randint(0, V, [S], { device });
    const { order_S, starts } = tokensByRow(places, V);
    time("embedding, back", 2 * sums.numel, () => embeddingGradientKernel(x, order_S, starts));
    time("tokens by row", 0, () => tokensByRow(places, V));
    time("sums narrowed and scaled", 6 * sums.numel, () => scaleKernel(sums, factor, "bfloat16"));
  });
  const [narrow, targets] = [make(4096, V), randint(0, V, [4096], { device })];
  time("score rows", bytes(narrow, narrow), () => scoreRowKernel_(narrow, targets, null, 1, "bfloat16"));
  // More blocks for a row, so that some compute while others read.
  for (const threads of [512, 256])
    time(`score rows, ${threads} threads`, bytes(narrow, narrow), () =>
      scoreRowKernel_(narrow, targets, null, 1, "bfloat16", { threads, pieces: 10 }),
    );
  const wide = narrow.to("float32");
  time("wide score rows", 3 * bytes(narrow), () => scoreRowKernel_(wide, targets, null, 1, "bfloat16"));
}
