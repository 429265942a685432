/** silu(gate) * up in one pass over memory, and its gradient in one more. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const threads = 256;

/** [S, 2I] = [gate | up] to [S, I]. I must be a multiple of 8 and the input contiguous. */
export function swigluKernel(gateUp_SI: Tensor): Tensor {
  const [S, width] = gateUp_SI.shape as [number, number];
  const { dtype, device } = gateUp_SI;
  const out_SI = empty([S, width / 2], { dtype, device });
  const packs = (S * width) / 16;
  forward(dtype, { blocks: Math.ceil(packs / threads), threads, overlaps: true }, [
    gateUp_SI,
    out_SI,
    { int: packs },
    { int: width / 16 },
  ]);
  return out_SI;
}

/** The gradient of [gate | up]. `again_SI`, where given, gets silu(gate) * up once more. */
export function swigluBackwardKernel(grad_SI: Tensor, gateUp_SI: Tensor, again_SI?: Tensor): Tensor {
  const [S, width] = gateUp_SI.shape as [number, number];
  const { dtype, device } = gateUp_SI;
  const gradGateUp_SI = empty([S, width], { dtype, device });
  const packs = (S * width) / 16;
  backward(dtype, { blocks: Math.ceil(packs / threads), threads, overlaps: true }, [
    grad_SI,
    gateUp_SI,
    gradGateUp_SI,
    again_SI ?? gradGateUp_SI,
    { int: packs },
    { int: width / 16 },
    { int: again_SI === undefined ? 0 : 1 },
  ]);
  return gradGateUp_SI;
}

/** x * sigmoid(x). A division to the last digit makes the product that computes this on its way (gated-kernel.ts) a tenth slower. */
export const siluSource = `
__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }`;

const forward = cudaKernel(
  "swiglu_forward",
  `${siluSource}
extern "C" __global__ void swiglu_forward(const Pack* in, Pack* out, int packs, int perRow) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  int row = i / perRow;
  size_t at = (size_t)row * perRow * 2 + (i - row * perRow);
  awaitPrevious();
  Pack gate = in[at], up = in[at + perRow], y;
#pragma unroll
  for (int k = 0; k < 8; k++) {
    y.x[k] = store(silu(load(gate.x[k])) * load(up.x[k]));
  }
  out[i] = y;
}`,
);

const backward = cudaKernel(
  "swiglu_backward",
  `${siluSource}
extern "C" __global__ void swiglu_backward(const Pack* grad, const Pack* in, Pack* out, Pack* again, int packs, int perRow,
                                           int isMadeAgain) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  int row = i / perRow;
  size_t at = (size_t)row * perRow * 2 + (i - row * perRow);
  awaitPrevious();
  Pack dy = grad[i], gate = in[at], up = in[at + perRow], dGate, dUp, y;
#pragma unroll
  for (int k = 0; k < 8; k++) {
    float d = load(dy.x[k]), g = load(gate.x[k]), u = load(up.x[k]);
    float s = __fdividef(1.0f, 1.0f + __expf(-g));
    dGate.x[k] = store(d * u * s * (1.0f + g * (1.0f - s)));
    dUp.x[k] = store(d * g * s);
    y.x[k] = store(silu(g) * u);
  }
  if (isMadeAgain) again[i] = y;
  out[at] = dGate;
  out[at + perRow] = dUp;
}`,
);
