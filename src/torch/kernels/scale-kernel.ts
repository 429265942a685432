/** Values times one factor that is on the device, in a narrower type or the same. */
import { empty } from "../create.ts";
import type { DType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel, hasKernels } from "./cuda-kernel.ts";

const threads = 256;

/** Whether the kernel makes values of this type of these. */
export function canScale(x: Tensor, dtype: DType): boolean {
  const isSource = x.dtype === dtype || x.dtype === "float32";
  return hasKernels(x) && isSource && x.isContiguous && x.numel % 8 === 0;
}

/** x times a factor of one element in float32, rounded once to `dtype`. */
export function scaleKernel(x: Tensor, factor: Tensor, dtype: DType): Tensor {
  const out = empty(x.shape, { dtype, device: x.device });
  const packs = x.numel / 8;
  const run = x.dtype === dtype ? plain : narrowing;
  run(dtype, { blocks: Math.ceil(packs / threads), threads, overlaps: true }, [x, factor, out, { int: packs }]);
  return out;
}

const source = `
struct alignas(16) Values { W x[8]; };
extern "C" __global__ void __launch_bounds__(256) scale(const Values* in, const float* factor, Pack* out, int packs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  awaitPrevious();
  Values x = in[i];
  float by = *factor;
  Pack y;
#pragma unroll
  for (int k = 0; k < 8; k++) y.x[k] = store(loadWide(x.x[k]) * by);
  out[i] = y;
}`;

const plain = cudaKernel(
  "scale",
  `typedef T W;\n__device__ __forceinline__ float loadWide(W x) { return load(x); }${source}`,
);
const narrowing = cudaKernel(
  "scale",
  `typedef float W;\n__device__ __forceinline__ float loadWide(W x) { return x; }${source}`,
);
