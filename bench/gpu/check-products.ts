/** The products of a decode step and what comes after them, against their composed forms, on random values. For 16-bit types on Hopper GPUs. */
import { arange, ones, rand, randn } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import {
  embedNorm,
  endNorm,
  gatedProduct,
  hasProductKernels,
  numSquares,
  residualProduct_,
  scaledProduct,
  scoresProduct,
  startNorm,
} from "../../src/torch/kernels/product-kernel.ts";
import { sampleKernel } from "../../src/torch/kernels/sample-kernel.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import { checkDraw, temperaturesOf } from "./check-draws.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";
const eps = 1e-6;

/** A chain as a layer has it, for rows that fill a tile, a part of one and more than one. */
export function checkProducts(dtype: DType, report: Report): void {
  if (dtype === "float32" || !hasProductKernels()) return;
  for (const rows of [1, 13, 64, 77, 256]) {
    for (const [D, I] of [
      [896, 4864],
      [576, 1536],
      [64, 192],
    ] as const)
      checkChain(dtype, report, rows, D, I);
  }
}

function checkChain(dtype: DType, report: Report, rows: number, D: number, I: number): void {
  const random = (shape: number[], range: number) => randn(shape, { device }).mul(range).to(dtype);
  const matrix = (outputs: number, inputs: number) => random([outputs, inputs], inputs ** -0.5);
  const [x_BD, weight_D, bias_N] = [
    random([rows, D], 1),
    random([D], 0.1).add(ones([D], { device, dtype })),
    random([192], 1),
  ];
  const [qkv, gateUp, down] = [matrix(192, D), matrix(2 * I, D), matrix(D, I)];
  const wide = (x: Tensor) => x.to("float64");
  const normed = (x: Tensor) => x.mul(x.square().mean(-1, true).add(eps).rsqrt()).mul(wide(weight_D));
  const name = (what: string) => `${what} ${rows}x${D}`;
  // Values between kernels are rounded to 16 bits, and sums of them add up: the tolerance is for those.
  const tolerance = { bfloat16: 0.012, float16: 0.0015 }[dtype as "bfloat16"] ?? 0;

  const before = startNorm(x_BD, weight_D, eps, numSquares(down, rows));
  const expectedNorm = normed(wide(x_BD));
  report(
    name("scaled"),
    dtype,
    scaledProduct(before, qkv, bias_N),
    expectedNorm.matmul(wide(qkv).t()).add(wide(bias_N)),
    tolerance,
  );
  if (rows <= 64) checkScores(name("scores"), dtype, report, { before, expectedNorm, matrix });
  // Rows of the matrix for the MLP, from the last on.
  const ids_B = arange(0, rows, { device })
    .neg()
    .add(2 * I - 1)
    .to("int32");
  const { x_BD: embedded_BD, norm } = embedNorm(ids_B, gateUp, weight_D, eps, numSquares(down, rows));
  const expected = wide(gateUp).indexSelect(0, ids_B);
  report(name("embedded"), dtype, embedded_BD, expected, 1e-7);
  report(name("embedded norm"), dtype, endNorm(embedded_BD, norm, weight_D), normed(expected), tolerance);
  const inner = gatedProduct(before, gateUp);
  const [gate, up] = expectedNorm.matmul(wide(gateUp).t()).chunk(2, -1) as [Tensor, Tensor];
  report(name("gated"), dtype, inner, gate.mul(gate.sigmoid()).mul(up), tolerance);
  const expected_BD = wide(x_BD).add(wide(inner).matmul(wide(down).t()));
  const after = residualProduct_(x_BD, inner, down, { weight: weight_D, eps });
  report(name("residual"), dtype, x_BD, expected_BD, tolerance);
  report(name("norm"), dtype, endNorm(x_BD, after, weight_D), normed(expected_BD), tolerance);
}

interface ScoresInput {
  readonly before: ReturnType<typeof startNorm>;
  readonly expectedNorm: Tensor;
  readonly matrix: (outputs: number, inputs: number) => Tensor;
}

/** Scores, and draws from the tiles that the product leaves: of one tile, of some, and of as many as a vocabulary has, the last one in part. */
function checkScores(name: string, dtype: DType, report: Report, { before, expectedNorm, matrix }: ScoresInput): void {
  const [B, D] = expectedNorm.shape as [number, number];
  for (const V of [192, 1000, 20008]) {
    const weight_VD = matrix(V, D);
    const [temperatures_B, uniforms_B] = [temperaturesOf(B), rand([B], { device })];
    const { scores_BV, tiles } = scoresProduct(before, weight_VD, temperatures_B);
    const expected = expectedNorm.matmul(weight_VD.to("float64").t());
    report(`${name} ${V}`, dtype, scores_BV, expected, { bfloat16: 0.012, float16: 0.0015 }[dtype as "bfloat16"] ?? 0);
    const again = scoresProduct(before, weight_VD, temperatures_B);
    const difference = again.tiles!.statistics.narrow(2, 0, 3).sub(tiles!.statistics.narrow(2, 0, 3));
    report(
      `${name} tiles again`,
      "float32",
      difference.add(1),
      ones(difference.shape, { device, dtype: "float64" }),
      1e-30,
    );
    const run = () => sampleKernel(scores_BV, temperatures_B, uniforms_B, { tiles });
    checkDraw(`${name} draw`, { z_BV: scores_BV, temperatures_B, uniforms_B }, run, report);
  }
}
