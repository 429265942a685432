/** The decode kernels against their composed forms, on random values. */
import type { AttentionKind } from "../../src/models/causal-lm/token-layout.ts";
import { cat, empty, rand, randn, tensor, zeros } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { rmsNorm } from "../../src/torch/fused.ts";
import { addNormKernel_ } from "../../src/torch/kernels/norm-kernel.ts";
import { pagedCluster } from "../../src/torch/kernels/paged-cluster-kernel.ts";
import { maxSplits, type PagedDecode, pagedDecode } from "../../src/torch/kernels/paged-kernel.ts";
import { pagedStream } from "../../src/torch/kernels/paged-stream-kernel.ts";
import { hasProductKernels } from "../../src/torch/kernels/product-kernel.ts";
import { sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import { pagedAttentionReference } from "../../src/torch/paged-attention.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";

export function checkPaged(dtype: DType, report: Report): void {
  // The tensor cores take 16-bit types.
  const sinks_H = randn([32], { device }).to(dtype);
  const plain: AttentionKind = { window: null, scale: null, softCap: null, sinks_H: null };
  for (const [H, G, K, kind] of [
    [14, 2, 64, plain],
    [16, 8, 128, plain],
    [4, 4, 64, plain],
    [9, 3, 64, plain],
    [32, 4, 128, plain],
    [32, 2, 128, plain],
    [8, 4, 256, plain],
    [16, 8, 128, { ...plain, window: 100, softCap: 1.5, scale: 0.2 }],
    [8, 4, 256, { ...plain, window: 17, softCap: 2, scale: 0.1 }],
    [64, 8, 64, { ...plain, sinks_H: cat([sinks_H, sinks_H]) }],
    [32, 4, 64, { ...plain, window: 128, sinks_H }],
  ] as const)
    if (dtype !== "float32") checkHeads(dtype, report, [H, G, K], kind);
  // More tiles than a warp of few has lanes to hold their places.
  if (dtype !== "float32") checkHeads(dtype, report, [14, 2, 64], plain, [1, 40, 4100, 4700, 9000]);
  checkNorm(dtype, report);
  checkSample(dtype, report);
}

function checkHeads(
  dtype: DType,
  report: Report,
  [H, G, K]: readonly [number, number, number],
  kind: AttentionKind,
  lengths = [1, 16, 255, 257, 640],
): void {
  const [B, blockSize, M] = [lengths.length, 16, Math.ceil(Math.max(...lengths) / 16)];
  const canSpan = (span: number) => M * blockSize <= maxSplits * span;
  const make = () => randn([B * M + 1, blockSize, G, K], { device }).to(dtype);
  const [keys, values] = [make(), make()];
  const table_BM = tensor(
    Int32Array.from({ length: B * M }, (_, i) => (i * 37) % (B * M)),
    [B, M],
    { device },
  );
  const qkv = randn([B, H + 2 * G, K], { device }).to(dtype);
  const angle = randn([B, K / 2], { device });
  const slots = lengths.map(
    (length, b) =>
      (((b * M + Math.floor((length - 1) / blockSize)) * 37) % (B * M)) * blockSize + ((length - 1) % blockSize),
  );
  const slots_B = tensor(Int32Array.from(slots), [B], { device });
  const [q, k, v] = qkv.splitSizes([H, G, G], 1) as [Tensor, Tensor, Tensor];
  const positions_B = tensor(
    Int32Array.from(lengths, (length) => length - 1),
    [B],
    { device },
  );
  const rotation = { cos_SK: angle.cos(), sin_SK: angle.sin() };
  const turned = (x: Tensor) => {
    const [a, b] = x.to("float64").chunk(2, -1) as [Tensor, Tensor];
    const [c, s] = [angle.to("float64").cos().unsqueeze(1), angle.to("float64").sin().unsqueeze(1)];
    return cat([a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s))], -1);
  };
  const runs = lengths.map((length, b) => ({
    blocks: table_BM
      .select(0, b)
      .narrow(0, 0, Math.ceil(length / blockSize))
      .to("int64"),
    numQueries: 1,
    length,
  }));
  const rows = { positions_B, table_BM };
  const heads = { numHeads: H, numGroups: G, headSize: K };
  const compare = (name: string, attend: PagedDecode) => {
    const out = attend({ q_BHK: q, k_BGK: k, v_BGK: v }, { keys, values }, rotation, kind);
    const stored = (x: Tensor) => x.flatten(0, 1).indexSelect(0, slots_B);
    report(`stored k ${H}/${G}x${K}`, dtype, stored(keys), turned(k), 1e-6);
    report("stored v", dtype, stored(values), v.to("float64"), 1e-7);
    const rotated = turned(q).to(dtype).to("float32");
    const expected = pagedAttentionReference(rotated, keys.to("float32"), values.to("float32"), runs, {
      ...kind,
      sinks_H: kind.sinks_H?.to("float32") ?? null,
    });
    report(`${name}${kindName(kind)}`, dtype, out, expected.to("float64"), 2e-5);
  };
  // One span for everything, and several that are joined.
  for (const [warps, span] of [
    [4, 2048],
    [4, 256],
    [4, 16],
    ...(K <= 128
      ? ([
          [8, 640],
          [8, 128],
        ] as const)
      : []),
    ...(K === 64
      ? ([
          [16, 640],
          [16, 512],
        ] as const)
      : []),
  ] as const) {
    if (!canSpan(span)) continue;
    const attend = pagedDecode(rows, heads, { cut: { warps, span } });
    compare(`${warps} warps, span ${span}`, attend);
  }
  // One block after another through the rings of few warps, and rows that are cut and joined.
  if (K > 128 || !hasProductKernels()) return;
  for (const [warps, team, span] of [
    [4, 4, 2048],
    [4, 2, 2048],
    [4, 1, 2048],
    [4, 4, 16],
    [8, 8, 128],
  ] as const) {
    if (!canSpan(span)) continue;
    compare(
      `stream, teams of ${team} of ${warps} warps, span ${span}`,
      pagedStream(rows, heads, { warps, team, depth: 2, resident: 1, span }, false),
    );
  }
  // Rows that are shorter than their cluster, and warps that walk tile after tile.
  for (const [cluster, warps, depth] of [
    [8, 8, 1],
    [8, 8, 2],
    [4, 8, 1],
    [4, 4, 2],
    [2, 4, 1],
    [2, 4, 3],
  ] as const)
    compare(
      `cluster of ${cluster} x ${warps} warps, depth ${depth}`,
      pagedCluster(rows, heads, { cluster, warps, depth }, false),
    );
}

function kindName({ window, softCap, sinks_H }: AttentionKind): string {
  const parts = { window, softCap, sinks: sinks_H === null ? null : "learned" };
  return Object.entries(parts)
    .map(([name, value]) => (value === null ? "" : `, ${name} ${value}`))
    .join("");
}

function checkNorm(dtype: DType, report: Report): void {
  for (const D of [64, 896, 4096]) {
    const [x, delta, weight] = [randn([37, D], { device }), randn([37, D], { device }), randn([D], { device })];
    const [x16, delta16, weight16] = [x.to(dtype), delta.to(dtype), weight.to(dtype)];
    const sum = x16.add(delta16);
    const expected = rmsNorm(sum.to("float64"), weight16.to("float64"), 1e-6);
    report(`add and norm ${D}`, dtype, addNormKernel_(x16, delta16, weight16, 1e-6), expected, 2e-6);
    report("sum", dtype, x16, sum.to("float64"), 1e-7);
    const parts = randn([3, 37, D], { device });
    const whole = x16.add(parts.sum(0).to(dtype)).to("float64");
    const expectedWhole = rmsNorm(whole, weight16.to("float64"), 1e-6);
    report("sum of parts", dtype, addNormKernel_(x16, parts, weight16, 1e-6), expectedWhole, 2e-6);
  }
}

function checkSample(dtype: DType, report: Report): void {
  const [B, V] = [512, 1000];
  const row = randn([1, V], { device }).mul(2).to(dtype);
  const scores = row.expand(B * 40, V).contiguous();
  const uniforms = rand([B * 40], { device });
  const out = sampleKernel(scores, empty([B * 40], { device }).fill_(0.8), uniforms);
  const tokens = out.select(0, 0).to("int64");
  const logp = row.to("float64").div(0.8).logSoftmax(-1).squeeze(0);
  report("sample logprob", "float32", out.select(0, 1), logp.indexSelect(0, tokens), 2e-5);
  report(
    "model logprob",
    "float32",
    out.select(0, 2),
    row.to("float64").logSoftmax(-1).squeeze(0).indexSelect(0, tokens),
    2e-5,
  );
  const counts = zeros([V], { device, dtype: "float64" }).indexAdd_(0, tokens, tokens.to("float64").mul(0).add(1));
  const expected = logp.exp().mul(B * 40);
  const isCommon = expected.gt(5);
  const chi = counts.sub(expected).square().div(expected).mul(isCommon.to("float64")).sum().item();
  const bins = isCommon.to("float64").sum().item();
  console.log(
    `sample ${dtype}: chi-square ${chi.toFixed(0)} over ${bins} bins (expect about ${bins} +- ${(3 * Math.sqrt(2 * bins)).toFixed(0)})`,
  );
  const z = randn([64, V], { device }).to(dtype);
  const best = sampleKernel(z, zeros([64], { device }), uniforms.narrow(0, 0, 64))
    .select(0, 0)
    .to("int64");
  report("greedy", "float32", z.gather(1, best.unsqueeze(1)).squeeze(1), z.amax(1).to("float64"), 1e-6);
}
