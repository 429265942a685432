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

/** Tables by position, [P, K/2], float32, and where in the input of a step the positions of its B rows begin. */
interface RotationLookup {
  readonly tables: readonly [Table, ...Table[]];
  readonly positionsAt: number;
}

interface Table {
  readonly cos_PK: Tensor;
  readonly sin_PK: Tensor;
}

/** cos and sin at the positions of the rows, [B, K/2]. */
interface RowRotation {
  readonly cos_SK: Tensor;
  readonly sin_SK: Tensor;
}

/**
 * The input of a step from pinned memory of the host, [2, N] to [N], int32: the part that `turn` names. Returns the tokens that the step starts
 * from, [B]: those in the first B values, or drawn[from] where `from`, in the next B, is not negative; and what one or two tables have at the
 * positions of the rows.
 *
 * A kernel that overlaps may stand behind this one. It must not let the next start before it has waited: those read the input before they wait.
 */
export function receiveKernel(
  input_N: Tensor,
  slots_2N: Tensor,
  turn: Tensor,
  drawn: Tensor,
  B: number,
  { tables, positionsAt }: RotationLookup,
): { readonly ids_B: Tensor; readonly rotations: readonly [RowRotation, ...RowRotation[]] } {
  const N = input_N.numel;
  const { device } = input_N;
  const ids_B = empty([B], { dtype: "int32", device });
  const [first, second = first] = tables;
  const width = first.cos_PK.size(1);
  const looked_TBK = empty([2 * tables.length, B, width], { device });
  const rotationOf = (index: number) => ({
    cos_SK: looked_TBK.select(0, 2 * index),
    sin_SK: looked_TBK.select(0, 2 * index + 1),
  });
  receive("float32", { blocks: Math.ceil((N + B * width) / copyThreads), threads: copyThreads }, [
    ...[slots_2N, turn, drawn, input_N, ids_B, first.cos_PK, first.sin_PK, second.cos_PK, second.sin_PK, looked_TBK],
    ...[N, B, positionsAt, width, tables.length].map((int) => ({ int })),
  ]);
  return { ids_B, rotations: tables.length === 1 ? [rotationOf(0)] : [rotationOf(0), rotationOf(1)] };
}

const receive = cudaKernel(
  "receive",
  `
extern "C" __global__ void receive(const int* slots, const int* turn, const int* drawn, int* input, int* ids, const float* cosine,
    const float* sine, const float* otherCosine, const float* otherSine, float* looked, int N, int B, int positionsAt, int width, int numTables) {
  letNextStart();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int* slot = slots + (size_t)*turn * N;
  if (i >= N) {
    int to = i - N, all = B * width;
    if (to >= all) return;
    size_t from = (size_t)slot[positionsAt + to / width] * width + to % width;
    looked[to] = cosine[from];
    looked[all + to] = sine[from];
    if (numTables == 1) return;
    looked[2 * all + to] = otherCosine[from];
    looked[3 * all + to] = otherSine[from];
    return;
  }
  int value = slot[i], from = i < B ? slot[B + i] : -1;
  input[i] = value;
  if (i < B) ids[i] = from < 0 ? value : drawn[from];
}`,
);

/** What a step has drawn, of up to P values, to the part of pinned memory [2, P] that `turn` names. The next step takes the other part. */
export function deliverKernel(slots_2P: Tensor, turn: Tensor, drawn_N: Tensor | null): void {
  const [N, P] = [drawn_N?.numel ?? 0, slots_2P.numel / 2];
  deliver("float32", { blocks: 1, threads: 1024, overlaps: true }, [
    drawn_N ?? turn,
    slots_2P,
    turn,
    { int: N },
    { int: P },
  ]);
}

const deliver = cudaKernel(
  "deliver",
  `
extern "C" __global__ void deliver(const int* drawn, int* slots, int* turn, int N, int P) {
  // The step before has turned it.
  int now = *turn;
  awaitPrevious();
  for (int i = threadIdx.x; i < N; i += blockDim.x) slots[(size_t)now * P + i] = drawn[i];
  __syncthreads();
  if (threadIdx.x == 0) *turn = 1 - now;
}`,
);
