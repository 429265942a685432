/** Draws without masks on a GPU against float64: which token a number chooses, log-probabilities, and that all of it repeats to the bit. */
import { full, ones, rand, randn, tensor } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { sampledLogprobKernel, sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";

/** Rows whose scores are in memory. */
export function checkDraws(dtype: DType, report: Report): void {
  for (const [B, V] of [
    [300, 1000],
    [1, 151936],
    [16, 151936],
    [64, 49152],
    [256, 151936],
  ] as const) {
    const z_BV = randn([B, V], { device }).mul(3).to(dtype);
    const [temperatures_B, uniforms_B] = [temperaturesOf(B), rand([B], { device })];
    const run = () => sampleKernel(z_BV, temperatures_B, uniforms_B);
    checkDraw(`draw ${B}x${V}`, { z_BV, temperatures_B, uniforms_B }, run, report);
    const drawn_3B = run();
    const again_B = sampledLogprobKernel(z_BV, temperatures_B, drawn_3B.select(0, 0).to("int32"));
    const isRandom_B = temperatures_B.gt(0);
    const looked_B = again_B.where(isRandom_B, 0).to("float64");
    report(`looked up ${B}x${V}`, "float32", drawn_3B.select(0, 1), looked_B, 1e-30);
  }
  const z_BV = randn([3, 1000], { device }).to(dtype);
  z_BV.narrow(0, 1, 1).narrow(1, 900, 1).fill_(Number.NaN);
  const bad_B = sampleKernel(z_BV, ones([3], { device }), rand([3], { device }))
    .select(0, 0)
    .lt(0)
    .to("float64");
  report("NaN", dtype, bad_B, tensor(Float64Array.of(0, 1, 0), [3], { device }), 1e-30);
}

/** Temperatures 1, 0.7 and 0 in turn. */
export function temperaturesOf(B: number): Tensor {
  return tensor(
    Float32Array.from({ length: B }, (_, row) => [1, 0.7, 0][row % 3]!),
    [B],
    { device },
  );
}

interface DrawInput {
  readonly z_BV: Tensor;
  readonly temperatures_B: Tensor;
  readonly uniforms_B: Tensor;
}

/** A draw that `run` repeats, [3, B], against the cumulative distribution in the order of the vocabulary. */
export function checkDraw(
  name: string,
  { z_BV, temperatures_B, uniforms_B }: DrawInput,
  run: () => Tensor,
  report: Report,
): void {
  const drawn_3B = run();
  const B = z_BV.size(0);
  const z = z_BV.to("float64");
  const tokens_B1 = drawn_3B.select(0, 0).to("int64").unsqueeze(1);
  const isGreedy_B = temperatures_B.eq(0);
  const safe_B1 = temperatures_B.where(isGreedy_B.logicalNot(), 1).to("float64").unsqueeze(1);
  const tempered_BV = z.div(safe_B1).logSoftmax(-1);
  const of = (x_BV: Tensor) => x_BV.gather(1, tokens_B1).squeeze(1);
  const zero_B = full([B], 0, { device, dtype: "float64" });
  // How far the number is outside of the token's part of the distribution; of greedy rows, how far the token is below the best.
  const upTo_B = of(tempered_BV.exp().cumsum(-1));
  const uniform_B = uniforms_B.to("float64");
  const outside_B = uniform_B
    .sub(upTo_B)
    .maximum(upTo_B.sub(of(tempered_BV.exp())).sub(uniform_B))
    .maximum(zero_B);
  const off_B = of(z).sub(z.amax(1)).where(isGreedy_B, outside_B);
  report(`${name} token`, "float32", off_B.add(1), full([B], 1, { device, dtype: "float64" }), 1e-5);
  report(`${name} logprob`, "float32", drawn_3B.select(0, 1), zero_B.where(isGreedy_B, of(tempered_BV)), 2e-5);
  report(`${name} model`, "float32", drawn_3B.select(0, 2), of(z.logSoftmax(-1)), 2e-5);
  report(`${name} again`, "float32", run(), drawn_3B.to("float64"), 1e-30);
}
