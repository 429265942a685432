/** Draws a token per row of scores in one pass: by temperature, and by masks of what may be drawn. 1,024 threads work on one row. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";
import { hasProductKernels } from "./product-kernel.ts";

/** What rows may draw. */
export interface RowMasks {
  /** One bit per token, set where it may be drawn, in words of int32: [K, W]. */
  readonly masks_KW: Tensor;
  /** The mask of each row, int32; -1 where all tokens may be drawn. */
  readonly masks_B: Tensor;
}

/**
 * [3, B] float32: token, its log-probability at its temperature, and at temperature 1. Temperature 0 takes the best.
 * `uniforms` in [0, 1) choose the token by inverting the cumulative distribution, in the order in which the threads of a
 * block see the row: any fixed order is as good as another. V must be a multiple of 8. A row with NaN gives token -1.
 * `drawn_B` gets the tokens as int32, 0 in place of -1, for a step that starts from them.
 */
export function sampleKernel(z_BV: Tensor, temperatures_B: Tensor, uniforms_B: Tensor, drawn_B?: Tensor): Tensor {
  const tokens_B = drawn_B ?? emptyTokens(z_BV);
  return launch(z_BV, temperatures_B, uniforms_B, tokens_B, false);
}

/**
 * What `sampleKernel` does, among the tokens that masks allow: [4, B]. The first three are as there, of the whole row; the fourth is the
 * log-probability among what the mask allows, which is what the token was drawn with. A row whose mask allows nothing gives token -1, and
 * one without a mask what `sampleKernel` gives it, to the bit.
 */
export function maskedSampleKernel(
  z_BV: Tensor,
  temperatures_B: Tensor,
  uniforms_B: Tensor,
  { masks_KW, masks_B }: RowMasks,
  drawn_B?: Tensor,
): Tensor {
  const [B, V] = z_BV.shape as [number, number];
  const out_4B = empty([4, B], { device: z_BV.device });
  const blocks = blocksPerRow(B);
  kernelFor(blocks, true)(z_BV.dtype, launchShape(B, blocks), [
    z_BV,
    temperatures_B,
    uniforms_B,
    out_4B,
    drawn_B ?? emptyTokens(z_BV),
    { int: V },
    { int: B },
    { int: 0 },
    masks_KW,
    masks_B,
  ]);
  return out_4B;
}

/** The log-probability that sampleKernel gives to a token of each row, [B], had it drawn that one: equal to the bit. Tokens are int32. */
export function sampledLogprobKernel(z_BV: Tensor, temperatures_B: Tensor, tokens_B: Tensor): Tensor {
  return launch(z_BV, temperatures_B, temperatures_B, tokens_B, true).select(0, 1);
}

function launch(
  z_BV: Tensor,
  temperatures_B: Tensor,
  uniforms_B: Tensor,
  tokens_B: Tensor,
  areTokensGiven: boolean,
): Tensor {
  const [B, V] = z_BV.shape as [number, number];
  const out_3B = empty([3, B], { device: z_BV.device });
  const blocks = blocksPerRow(B);
  kernelFor(blocks, false)(z_BV.dtype, { ...launchShape(B, blocks), overlaps: blocks > 1 }, [
    z_BV,
    temperatures_B,
    uniforms_B,
    out_3B,
    tokens_B,
    { int: V },
    { int: B },
    { int: areTokensGiven ? 1 : 0 },
  ]);
  return out_3B;
}

function emptyTokens(z_BV: Tensor): Tensor {
  return empty([z_BV.size(0)], { device: z_BV.device, dtype: "int32" });
}

/** Whether rows of this many scores can be drawn from. */
export function canSample(vocabSize: number): boolean {
  return vocabSize % 8 === 0;
}

const source = `
constexpr int THREADS = 1024 / CLUSTER;
// Waits for all threads of a row.
__device__ __forceinline__ void awaitRow() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}
// Leaves a value in the shared memory of every block of the row.
template <typename V> __device__ __forceinline__ void give(V* place, V value) {
#if CLUSTER > 1
#pragma unroll
  for (int rank = 0; rank < CLUSTER; rank++) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(place)), "r"(rank));
    asm volatile("st.shared::cluster.b32 [%0], %1;" :: "r"(there), "r"(*(unsigned*)&value) : "memory");
  }
#else
  *place = value;
#endif
}
extern "C" __global__ void __launch_bounds__(THREADS)
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
sample(const T* scores, const float* temperatures, const float* uniforms,
                                                          float* out, int* drawn, int V, int B, int isGiven
#ifdef MASKED
                                                          , const unsigned char* masks, const int* maskOf
#endif
) {
  letNextStart();
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  int b = blockIdx.x / CLUSTER, thread = blockIdx.x % CLUSTER * THREADS + threadIdx.x;
  const T* row = scores + (size_t)b * V;
  const Pack* packs = (const Pack*)row;
  awaitPrevious();
  float temperature = temperatures[b];
  bool isGreedy = temperature == 0.0f;
  float inverse = isGreedy ? 1.0f : 1.0f / temperature;
  // Per thread: best score and its place, and masses relative to that best, tempered and plain.
  float top = -3.0e38f, tempered = 0.0f, plain = 0.0f;
  int place = 0;
  bool isBad = false;
  bool isPlain = inverse == 1.0f;
#ifdef MASKED
  // A byte of the mask for a pack of scores. The best of what it allows, and tempered masses relative to that.
  const unsigned char* bits = maskOf[b] < 0 ? nullptr : masks + (size_t)maskOf[b] * ((V + 31) / 32 * 4);
  float allowedTop = -3.0e38f, allowedMass = 0.0f;
  int allowedPlace = 0;
#endif
  auto take = [&](const Pack& p, unsigned allowed, int i) {
    float z[8], next = top;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      z[k] = load(p.x[k]);
      isBad |= isnan(z[k]);
      if (z[k] > next) { next = z[k]; place = i * 8 + k; }
    }
    if (next > top) {
      tempered *= __expf((top - next) * inverse);
      plain *= __expf(top - next);
      top = next;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) plain += __expf(z[k] - top);
    if (!isPlain) {
#pragma unroll
      for (int k = 0; k < 8; k++) tempered += __expf((z[k] - top) * inverse);
    }
#ifdef MASKED
    if (allowed == 0) return;
    next = allowedTop;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      if ((allowed >> k & 1) && z[k] > next) { next = z[k]; allowedPlace = i * 8 + k; }
    }
    if (next > allowedTop) {
      allowedMass *= __expf((allowedTop - next) * inverse);
      allowedTop = next;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) {
      if (allowed >> k & 1) allowedMass += __expf((z[k] - allowedTop) * inverse);
    }
#endif
  };
#ifdef MASKED
  auto allowedAt = [&](int i) { return bits == nullptr ? 0u : (unsigned)bits[i]; };
#else
  auto allowedAt = [](int) { return 0u; };
#endif
  // Several loads on their way at a time: a row has few threads for its length.
  constexpr int AHEAD = 4;
  int numPacks = V / 8, i = thread;
  for (; i + (AHEAD - 1) * 1024 < numPacks; i += AHEAD * 1024) {
    Pack p[AHEAD];
    unsigned allowed[AHEAD];
#pragma unroll
    for (int j = 0; j < AHEAD; j++) { p[j] = packs[i + j * 1024]; allowed[j] = allowedAt(i + j * 1024); }
#pragma unroll
    for (int j = 0; j < AHEAD; j++) take(p[j], allowed[j], i + j * 1024);
  }
  for (; i < numPacks; i += 1024) take(packs[i], allowedAt(i), i);
  if (isPlain) tempered = plain;
  // A place for each warp of the row.
  __shared__ float warpTop[32], warpSum[32], warpPlain[32];
  __shared__ int warpPlace[32], warpBad[32], warpOwners[32];
  int lane = thread % 32, warp = thread / 32;
#if CLUSTER > 1
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  int isWarpBad = __any_sync(~0u, isBad);
  if (lane == 0) give(warpBad + warp, isWarpBad);
  // The best of all threads, the first where several are equal.
  auto findBest = [&](float& best, int& bestPlace) {
    for (int step = 16; step > 0; step >>= 1) {
      float other = __shfl_xor_sync(~0u, best, step);
      int otherPlace = __shfl_xor_sync(~0u, bestPlace, step);
      if (other > best || (other == best && otherPlace < bestPlace)) { best = other; bestPlace = otherPlace; }
    }
    if (lane == 0) { give(warpTop + warp, best); give(warpPlace + warp, bestPlace); }
    awaitRow();
    best = warpTop[0]; bestPlace = warpPlace[0];
    for (int w = 1; w < 32; w++) {
      if (warpTop[w] > best || (warpTop[w] == best && warpPlace[w] < bestPlace)) { best = warpTop[w]; bestPlace = warpPlace[w]; }
    }
  };
  float best = top;
  int bestPlace = place;
  findBest(best, bestPlace);
  tempered *= __expf((top - best) * inverse);
  plain *= __expf(top - best);
  // Inclusive scan of masses over the threads of a warp; the masses of the warps before it, and of all.
  float scan, offset, total;
  auto addUp = [&](float mass) {
    scan = mass;
    for (int step = 1; step < 32; step <<= 1) {
      float earlier = __shfl_up_sync(~0u, scan, step);
      if (lane >= step) scan += earlier;
    }
    if (lane == 31) give(warpSum + warp, scan);
    awaitRow();
    offset = 0.0f, total = 0.0f;
    for (int w = 0; w < 32; w++) {
      if (w < warp) offset += warpSum[w];
      total += warpSum[w];
    }
  };
  float plainSum = plain, plainTotal = 0.0f;
  for (int step = 16; step > 0; step >>= 1) plainSum += __shfl_xor_sync(~0u, plainSum, step);
  if (lane == 0) give(warpPlain + warp, plainSum);
  addUp(tempered);
  for (int w = 0; w < 32; w++) plainTotal += warpPlain[w];
  float wholeBest = best, wholeTotal = total;
  bool isEmpty = false;
#ifdef MASKED
  if (bits != nullptr) {
    top = allowedTop; place = allowedPlace;
    best = top; bestPlace = place;
    awaitRow();
    findBest(best, bestPlace);
    addUp(allowedMass * __expf((top - best) * inverse));
    isEmpty = !(total > 0.0f);
  }
#endif
  int anyBad = 0;
  for (int w = 0; w < 32; w++) anyBad |= warpBad[w];
  float* token = out + b;
  // Scores relative to the best of the row, and what was drawn with.
  auto write = [&](int chosen) {
    float z = load(row[chosen]);
    drawn[b] = chosen;
    token[0] = chosen;
    token[B] = isGreedy ? 0.0f : fmaf(z - wholeBest, inverse, -logf(wholeTotal));
    token[2 * B] = z - wholeBest - logf(plainTotal);
#ifdef MASKED
    token[3 * B] = isGreedy ? 0.0f : fmaf(z - best, inverse, -logf(total));
#endif
  };
  if (anyBad || isEmpty) {
    if (thread == 0) { token[0] = -1.0f; token[B] = __int_as_float(0x7fc00000); if (!isGiven) drawn[b] = 0; }
    return;
  }
  if (isGreedy) {
    if (thread == 0) write(bestPlace);
    return;
  }
  if (isGiven) {
    if (thread == 0) {
      float z = load(row[drawn[b]]) - best;
      token[B] = fmaf(z, inverse, -logf(total));
    }
    return;
  }
  float goal = uniforms[b] * total;
  // The end of one thread is the start of the next, to the bit: every goal has one owner, except one that was rounded up
  // to the total, which the best token takes.
  float before = __shfl_up_sync(~0u, scan, 1);
  float from = lane == 0 ? offset : offset + before, to = offset + scan;
  bool isMine = goal >= from && goal < to;
  unsigned warpMine = __ballot_sync(~0u, isMine);
  if (lane == 0) give(warpOwners + warp, (int)warpMine);
  awaitRow();
  int owners = 0;
  for (int w = 0; w < 32; w++) owners |= warpOwners[w];
  if (owners == 0) isMine = bestPlace == place && top == best;
  unsigned mine = __ballot_sync(~0u, isMine);
  if (mine == 0) return;
  // The owner's warp looks through the owner's packs, a lane each. Where rounding leaves the goal to nobody, the owner's
  // best token takes it.
  int owner = __ffs(mine) - 1, first = warp * 32 + owner;
  int chosen = __shfl_sync(~0u, place, owner);
  float left = __shfl_sync(~0u, goal - from, owner);
  for (int base = first; base < numPacks && owners != 0; base += 32 * 1024) {
    int at = base + lane * 1024;
    unsigned allowed = at < numPacks ? 0xffu : 0u;
#ifdef MASKED
    if (bits != nullptr && at < numPacks) allowed = bits[at];
#endif
    float masses[8], sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      masses[k] = allowed >> k & 1 ? __expf((load(row[at * 8 + k]) - best) * inverse) : 0.0f;
      sum += masses[k];
    }
    float upTo = sum;
    for (int step = 1; step < 32; step <<= 1) {
      float earlier = __shfl_up_sync(~0u, upTo, step);
      if (lane >= step) upTo += earlier;
    }
    unsigned past = __ballot_sync(~0u, left < upTo);
    if (past != 0) {
      int found = __ffs(past) - 1, within = chosen;
      float rest = fmaxf(left - (upTo - sum), 0.0f);
#pragma unroll
      for (int k = 0; k < 8; k++) {
        if (rest >= 0.0f && masses[k] > 0.0f) within = at * 8 + k;
        rest -= masses[k];
      }
      chosen = __shfl_sync(~0u, within, found);
      break;
    }
    left -= __shfl_sync(~0u, upTo, 31);
  }
  if (lane == owner) write(chosen);
}`;

/** Few rows are a cluster of eight blocks each on Hopper GPUs, so that more processors have a part; more are a block each. Both draw the same, to the bit. */
function blocksPerRow(numRows: number): number {
  return numRows <= 16 && hasProductKernels() ? 8 : 1;
}

function launchShape(numRows: number, blocks: number) {
  return { blocks: numRows * blocks, threads: 1024 / blocks };
}

const kernels = new Map<string, ReturnType<typeof cudaKernel>>();

function kernelFor(blocks: number, isMasked: boolean): ReturnType<typeof cudaKernel> {
  const constants = `#define CLUSTER ${blocks}\n${isMasked ? "#define MASKED" : ""}`;
  let kernel = kernels.get(constants);
  if (kernel === undefined) {
    kernel = cudaKernel("sample", constants + source);
    kernels.set(constants, kernel);
  }
  return kernel;
}
