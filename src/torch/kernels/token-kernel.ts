/** The tokens that a decode step starts from: known ones, or those that the step before has drawn on the device. */
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
