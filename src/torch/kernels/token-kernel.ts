/** What stands around a decode step: its input and output between host and device, and the tokens that it starts from. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

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

/**
 * The input of a step from pinned memory of the host, [2, N] to [N], int32: the part that `turn` names. Returns the tokens that the step starts
 * from, [B]: those in the first B values, or drawn[from] where `from`, in the next B, is not negative.
 */
export function receiveKernel(input_N: Tensor, slots_2N: Tensor, turn: Tensor, drawn: Tensor, B: number): Tensor {
  const N = input_N.numel;
  const ids_B = empty([B], { dtype: "int32", device: input_N.device });
  receive("float32", { blocks: Math.ceil(N / copyThreads), threads: copyThreads }, [
    slots_2N,
    turn,
    drawn,
    input_N,
    ids_B,
    { int: N },
    { int: B },
  ]);
  return ids_B;
}

const receive = cudaKernel(
  "receive",
  `
extern "C" __global__ void receive(const int* slots, const int* turn, const int* drawn, int* input, int* ids, int N, int B) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  const int* slot = slots + (size_t)*turn * N;
  int value = slot[i], from = i < B ? slot[B + i] : -1;
  input[i] = value;
  if (i < B) ids[i] = from < 0 ? value : drawn[from];
}`,
);

/** What a step has drawn, of up to P values, to the part of pinned memory [2, P] that `turn` names. The next step takes the other part. */
export function deliverKernel(slots_2P: Tensor, turn: Tensor, drawn_N: Tensor | null): void {
  const [N, P] = [drawn_N?.numel ?? 0, slots_2P.numel / 2];
  deliver("float32", { blocks: 1, threads: 1024 }, [drawn_N ?? turn, slots_2P, turn, { int: N }, { int: P }]);
}

const deliver = cudaKernel(
  "deliver",
  `
extern "C" __global__ void deliver(const int* drawn, int* slots, int* turn, int N, int P) {
  int now = *turn;
  for (int i = threadIdx.x; i < N; i += blockDim.x) slots[(size_t)now * P + i] = drawn[i];
  __syncthreads();
  if (threadIdx.x == 0) *turn = 1 - now;
}`,
);
