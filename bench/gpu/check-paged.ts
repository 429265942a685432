/** The decode kernels against their composed forms, on random values. */
import { empty, rand, randn, tensor, zeros } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { pagedDecodeKernel, rotateAndStoreKernel } from "../../src/torch/kernels/paged-kernel.ts";
import { sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import { pagedAttentionReference } from "../../src/torch/paged-attention.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";

export function checkPaged(dtype: DType, report: Report): void {
  for (const [H, G, K] of [
    [14, 2, 64],
    [16, 8, 128],
    [4, 4, 64],
    [32, 4, 128],
  ] as const)
    checkHeads(dtype, report, H, G, K);
  checkSample(dtype, report);
}

function checkHeads(dtype: DType, report: Report, H: number, G: number, K: number): void {
  const [B, blockSize, M] = [5, 16, 40];
  const lengths = [1, 16, 255, 257, 640];
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
  const lengths_B = tensor(Int32Array.from(lengths), [B], { device });
  const [q, k, v] = qkv.splitSizes([H, G, G], 1) as [Tensor, Tensor, Tensor];
  const paged = { keys, values, table_BM };
  const rotated = rotateAndStoreKernel(q, k, v, angle.cos(), angle.sin(), slots_B, paged);
  const turn = (x: Tensor) => {
    const [a, b] = x.to("float64").chunk(2, -1) as [Tensor, Tensor];
    const [c, s] = [angle.to("float64").cos().unsqueeze(1), angle.to("float64").sin().unsqueeze(1)];
    return { first: a.mul(c).sub(b.mul(s)), second: b.mul(c).add(a.mul(s)) };
  };
  report(`rotate q ${H}/${G}x${K}`, dtype, rotated.narrow(2, 0, K / 2), turn(q).first, 1e-6);
  const stored = keys.flatten(0, 1).indexSelect(0, slots_B);
  report("stored k", dtype, stored.narrow(2, K / 2, K / 2), turn(k).second, 1e-6);
  report("stored v", dtype, values.flatten(0, 1).indexSelect(0, slots_B), v.to("float64"), 1e-7);
  if (dtype === "float32") return; // the tensor cores take 16-bit types
  const runs = lengths.map((length, b) => ({
    blocks: table_BM
      .select(0, b)
      .narrow(0, 0, Math.ceil(length / blockSize))
      .to("int64"),
    numQueries: 1,
    length,
  }));
  const expected = pagedAttentionReference(rotated.to("float32"), keys.to("float32"), values.to("float32"), runs, null);
  report(
    "paged attention",
    dtype,
    pagedDecodeKernel(rotated, paged, lengths_B, K ** -0.5),
    expected.to("float64"),
    2e-5,
  );
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
