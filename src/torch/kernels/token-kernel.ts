/** What stands around a decode step: its input and output between host and device, and the tokens that it starts from. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const threads = 128;

/** Row b gets drawn[from[b]], or known[b] where from[b] is negative. All int32, [B]; `drawn` may be longer. */
export function startTokensKernel(known_B: Tensor, from_B: Tensor, drawn: Tensor): Tensor {
  const B = known_B.size(0);
  const ids_B = empty([B], { dtype: "int32", device: known_B.device });
  kernel("float32", { blocks: Math.ceil(B / threads), threads }, [known_B, from_B, drawn, ids_B, { int: B }]);
  return ids_B;
}

const kernel = cudaKernel(
  "start_tokens",
  `
extern "C" __global__ void start_tokens(const int* known, const int* from, const int* drawn, int* ids, int B) {
  int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < B) ids[b] = from[b] < 0 ? known[b] : drawn[from[b]];
}`,
);

/**
 * Copies as many values as `to` has, of 32 bits each and contiguous; either side may be pinned memory of the host. For a few kilobytes between
 * two kernels: the copy engine would have to be waited for before and after.
 */
export function copyKernel(to: Tensor, from: Tensor): void {
  const count = to.numel;
  copy("float32", { blocks: Math.ceil(count / copyThreads), threads: copyThreads }, [from, to, { int: count }]);
}

const copyThreads = 256;

const copy = cudaKernel(
  "copy_words",
  `
extern "C" __global__ void copy_words(const int* from, int* to, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}`,
);
