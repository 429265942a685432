/**
 * One token of linear attention per row, in one pass: the short convolution, the step of the gated delta rule, and the gated norm of what
 * is read. What it computes is that of GatedDeltaNet, which is its composed form.
 *
 * A block has one head of one row. It reads the state of the tokens before from one row of the states and leaves the state after this
 * token in another, so that blocks that share queries and keys do not wait for each other.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels } from "./cuda-kernel.ts";

/** Sizes of linear attention: G key heads of K values, H value heads of W values, and the tokens that the convolution sees. */
interface DeltaShape {
  readonly numKeyHeads: number;
  readonly numValueHeads: number;
  readonly keySize: number;
  readonly valueSize: number;
  readonly kernelSize: number;
  /** Whether the inputs of a key head stand side by side: see LinearAttentionConfig. */
  readonly hasGroupedInput: boolean;
}

/** The weights beside the projections, all in one type: [C, 1, kernelSize], [H], [H] and [W]. */
interface DeltaWeights {
  readonly convolution: Tensor;
  readonly stepBias: Tensor;
  readonly logDecay: Tensor;
  readonly norm: Tensor;
  readonly normEps: number;
}

/** States, a row each, [rows, kernelSize - 1, C] and [rows, H, K, W] in float32; the rows that each token reads and leaves, [B], int32. */
interface DeltaStates {
  readonly windows: Tensor;
  readonly memories: Tensor;
  readonly from_B: Tensor;
  readonly to_B: Tensor;
}

const threads = 512;
/** Values of the memory that a thread holds. */
const maxHeld = 64;

/** Why the kernel does not fit these sizes; null where it does. */
export function deltaProblem({ keySize, valueSize }: DeltaShape): string | null {
  const lanes = threads / valueSize;
  const fits = [32, 64, 128, 256].includes(valueSize) && keySize % lanes === 0 && keySize / lanes <= maxHeld;
  return fits
    ? null
    : `linear attention has keys of ${keySize} and values of ${valueSize}; its kernel takes values of 32, 64, 128 or 256, and keys of a multiple of 512 / values, at most ${maxHeld} times that`;
}

/** The input projections of one token per row, [B, X], to what the output projection takes: [B, H W]. */
export function deltaKernel(
  projected_BX: Tensor,
  shape: DeltaShape,
  weights: DeltaWeights,
  states: DeltaStates,
): Tensor {
  const { numValueHeads: H, valueSize: W } = shape;
  const { dtype, device } = projected_BX;
  const B = projected_BX.size(0);
  const out_BY = empty([B, H * W], { dtype, device });
  const { convolution, stepBias, logDecay, norm, normEps } = weights;
  const { from_B, to_B, windows, memories } = states;
  kernelFor(constantsOf(shape))(dtype, { blocks: B * H, threads }, [
    ...[projected_BX, convolution, stepBias, logDecay, norm, from_B, to_B, windows, memories, out_BY],
    { int: projected_BX.strides[0] ?? 0 },
    { float: normEps },
  ]);
  return out_BY;
}

function constantsOf({
  numKeyHeads,
  numValueHeads,
  keySize,
  valueSize,
  kernelSize,
  hasGroupedInput,
}: DeltaShape): string {
  return `
constexpr int G = ${numKeyHeads}, H = ${numValueHeads}, K = ${keySize}, W = ${valueSize}, TAPS = ${kernelSize};
constexpr bool GROUPED = ${hasGroupedInput};`;
}

// A thread has a column of values and every LANES-th row of keys. Values are rounded where the composed form rounds them.
const deltaSource = `
constexpr int THREADS = ${threads}, SHARE = H / G, C = 2 * G * K + H * W, LANES = THREADS / W, HELD = K / LANES;
constexpr int PER_GROUP = 2 * K + 2 * SHARE * W;

__device__ __forceinline__ float rounded(float x) { return load(store(x)); }
__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float warpSum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) delta_step(const T* projected, const T* convolution, const T* stepBias,
    const T* logDecay, const T* norm, const int* from, const int* to, T* windows, float* memories, T* out, int stride, float eps) {
  int h = blockIdx.x % H, b = blockIdx.x / H, g = h / SHARE, j = h % SHARE;
  const T* x = projected + (size_t)b * stride;
  // Where the inputs of this head are.
  int q0 = GROUPED ? g * PER_GROUP : g * K;
  int k0 = GROUPED ? q0 + K : G * K + g * K;
  int v0 = GROUPED ? q0 + 2 * K + j * W : 2 * G * K + h * W;
  int z0 = GROUPED ? v0 + SHARE * W : C + h * W;
  int b0 = GROUPED ? G * PER_GROUP + g * 2 * SHARE + j : C + H * W + h;
  int a0 = GROUPED ? b0 + SHARE : b0 + H;

  __shared__ float query[K], key[K], value[W], part[LANES][W], lengths[2], squares[8];
  int column = threadIdx.x % W, lane = threadIdx.x / W;
  // The memory is on its way while the inputs are made.
  const float* past = memories + ((size_t)from[b] * H + h) * K * W + column;
  float held[HELD];
#pragma unroll
  for (int n = 0; n < HELD; n++) held[n] = past[(size_t)(lane + n * LANES) * W];

  const T* seen = windows + (size_t)from[b] * (TAPS - 1) * C;
  T* kept = windows + (size_t)to[b] * (TAPS - 1) * C;
  for (int i = threadIdx.x; i < 2 * K + W; i += THREADS) {
    bool isQuery = i < K, isValue = i >= 2 * K;
    int at = isQuery ? q0 + i : isValue ? v0 + i - 2 * K : k0 + i - K;
    int c = isQuery ? g * K + i : isValue ? 2 * G * K + h * W + i - 2 * K : G * K + g * K + i - K;
    // Queries and keys of a group are kept by the first of its heads.
    bool keeps = isValue || j == 0;
    float sum = 0.0f;
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
      T input = tap < TAPS - 1 ? seen[tap * C + c] : x[at];
      sum += load(input) * load(convolution[c * TAPS + tap]);
      if (keeps && tap > 0) kept[(tap - 1) * C + c] = input;
    }
    sum = rounded(sum);
    (isQuery ? query[i] : isValue ? value[i - 2 * K] : key[i - K]) = rounded(sum * sigmoid(sum));
  }
  __syncthreads();
  if (threadIdx.x < 64) {
    const float* own = threadIdx.x < 32 ? query : key;
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < K; i += 32) sum += own[i] * own[i];
    sum = warpSum(sum);
    if (threadIdx.x % 32 == 0) lengths[threadIdx.x / 32] = rsqrtf(sum + 1.0e-6f);
  }
  __syncthreads();

  float queryScale = lengths[0] * rsqrtf((float)K), keyScale = lengths[1];
  float spread = load(x[a0]) + load(stepBias[h]);
  float decay = expf(-expf(load(logDecay[h])) * (spread > 20.0f ? spread : log1pf(expf(spread))));
  float known = 0.0f;
#pragma unroll
  for (int n = 0; n < HELD; n++) {
    held[n] *= decay;
    known += held[n] * key[lane + n * LANES] * keyScale;
  }
  part[lane][column] = known;
  __syncthreads();
  known = 0.0f;
#pragma unroll
  for (int n = 0; n < LANES; n++) known += part[n][column];
  __syncthreads();
  float change = sigmoid(load(x[b0])) * (value[column] - known), read = 0.0f;
  float* next = memories + ((size_t)to[b] * H + h) * K * W + column;
#pragma unroll
  for (int n = 0; n < HELD; n++) {
    int row = lane + n * LANES;
    held[n] += key[row] * keyScale * change;
    next[(size_t)row * W] = held[n];
    read += held[n] * query[row] * queryScale;
  }
  part[lane][column] = read;
  __syncthreads();
  read = 0.0f;
#pragma unroll
  for (int n = 0; n < LANES; n++) read += part[n][column];
  read = rounded(read);
  float square = warpSum(read * read);
  if (lane == 0 && column % 32 == 0) squares[column / 32] = square;
  __syncthreads();
  if (lane > 0) return;
  float sum = 0.0f;
#pragma unroll
  for (int n = 0; n < W / 32; n++) sum += squares[n];
  float normed = rounded(read * rsqrtf(sum / W + eps) * load(norm[column])), gate = load(x[z0 + column]);
  out[(size_t)b * H * W + h * W + column] = store(normed * gate * sigmoid(gate));
}`;

const kernelFor = cudaKernels("delta_step", deltaSource);
