/** The source of the products of product-kernel.ts, for Hopper GPUs (compute capability 9). */
import { maxStages, type ProductKind, type ProductPlan, type ProductSizes, stepWidth } from "./product-plan.ts";
import { siluSource } from "./swiglu-kernel.ts";

/** CUDA source of one product, divided as planned. `numParts` sums of squares make a row's norm, where it is scaled by that. */
export function productSource(
  kind: ProductKind,
  { inputs, outputs }: ProductSizes,
  { tile, splits, groups, columns, numTiles, sumBytes }: ProductPlan,
  numParts: number,
  hasBias: boolean,
): string {
  return `
constexpr int OUTPUTS = ${kind === "gated" ? outputs / 2 : outputs}, TILE = ${tile}, COLUMNS = ${columns}, NUM_TILES = ${numTiles};
constexpr int STEPS = ${inputs / stepWidth}, SPLITS = ${splits}, GROUPS = ${groups}, PARTS = ${numParts}, SUM_BYTES = ${sumBytes};
constexpr int ROWS = 64 * GROUPS, WORKERS = 128 * GROUPS, THREADS = WORKERS + 32, MAX_STAGES = ${maxStages};
constexpr bool HAS_BIAS = ${hasBias};
#define ${kind.toUpperCase()}
#define CLUSTER ${splits}
${multiplication(tile)}
${productHelpers}
${siluSource}
${body}`;
}

/** acc [64, tile] += a [64, 16] b' with b [tile, 16], of tiles in shared memory. */
export function multiplication(tile: number): string {
  const count = tile / 2;
  const indices = Array.from({ length: count }, (_, i) => i);
  return `
__device__ __forceinline__ void multiply(float* acc, unsigned long long a, unsigned long long b, int isAdded) {
  asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %${count + 2}, 0;\\n"
    "wgmma.mma_async.sync.aligned.m64n${tile}k16.f32." ELEMENT "." ELEMENT
    " {${indices.map((i) => `%${i}`).join(", ")}}, %${count}, %${count + 1}, p, 1, 1, 0, 0;\\n}"
    : ${indices.map((i) => `"+f"(acc[${i}])`).join(", ")} : "l"(a), "l"(b), "r"(isAdded));
}`;
}

/** What products on wgmma are made of, in blocks of which CLUSTER share their memory. */
export const productHelpers = `
struct alignas(64) Tiles { char description[128]; };
#ifdef SCORES
typedef float Out;
#else
typedef T Out;
#endif
__device__ __forceinline__ void initBarrier(unsigned barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void expectBytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(barrier) : "memory");
}
__device__ __forceinline__ void await(unsigned barrier, int parity) {
  asm volatile("{\\n.reg .pred p;\\nAGAIN:\\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n@p bra DONE;\\nbra AGAIN;\\nDONE:\\n}"
               :: "r"(barrier), "r"(parity) : "memory");
}
__device__ __forceinline__ void copyTile(unsigned to, const Tiles* from, int column, int row, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(from), "r"(column), "r"(row), "r"(barrier) : "memory");
}
// Weights, which nobody needs again soon: the second-level cache gives up their place first.
__device__ __forceinline__ void copyWeightTile(unsigned to, const Tiles* from, int column, int row, unsigned barrier, unsigned long long policy) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(from), "r"(column), "r"(row), "r"(barrier), "l"(policy) : "memory");
}
// A tile for the tensor cores: lines of 128 bytes, swizzled, eight of them 1024 bytes apart from the next eight.
__device__ __forceinline__ unsigned long long tileAt(unsigned address) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}
__device__ __forceinline__ unsigned pair(float low, float high) {
  unsigned packed;
  asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
__device__ __forceinline__ void awaitCluster() {
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.release.aligned;\\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}`;

// Scores go to memory as they are, and what score-tiles-kernel.ts leaves of each tile of a row is taken from registers. Four lanes have a row.
const scoresEnd = `
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int row = row0 + r0 + half * 8;
      bool isRow = row < numRows;
      // Of none of the rows of this warp is there a score.
      if (row - lane / 4 >= numRows) continue;
      float factor = factors[r0 + half * 8], temperature = isRow ? temperatures[row] : 0.0f;
      float inverse = temperature == 0.0f ? 1.0f : 1.0f / temperature, best = -3.0e38f;
      float* z = acc + half * 2;
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++) {
        int n = tile * COLUMNS + j * 8 + c0;
        bool isScore = n < OUTPUTS;
#pragma unroll
        for (int k = 0; k < 2; k++) {
          z[j * 4 + k] = isScore ? z[j * 4 + k] * factor : __int_as_float(0xff800000);
          best = fmaxf(best, z[j * 4 + k]);
        }
        if (isRow && isScore) *(float2*)(out + (size_t)row * OUTPUTS + n) = make_float2(z[j * 4], z[j * 4 + 1]);
      }
      auto massOf = [&](float inverse) {
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j++) sum += __expf((z[j * 4] - best) * inverse) + __expf((z[j * 4 + 1] - best) * inverse);
        return sum;
      };
      for (int lanes = 2; lanes > 0; lanes >>= 1) best = fmaxf(best, __shfl_xor_sync(~0u, best, lanes));
      float plain = massOf(1.0f), tempered = inverse == 1.0f ? plain : massOf(inverse);
      for (int lanes = 2; lanes > 0; lanes >>= 1) {
        plain += __shfl_xor_sync(~0u, plain, lanes);
        tempered += __shfl_xor_sync(~0u, tempered, lanes);
      }
      if (isRow && lane % 4 == 0) tiles[(size_t)row * NUM_TILES + tile] = make_float4(best, plain, tempered, 0.0f);
    }`;

// One thread copies, four or eight warps multiply. Weights of the first stages are copied while the kernel before this one still runs;
// what that one writes is waited for. Where a tile is split, every block of the cluster adds up some of the rows, and gets the others'
// parts of them into its shared memory; where it is not, a block takes tiles in turn, and those of the next are on their way while it
// writes one. A stage has as many rows of x as there are: the tensor cores read on behind them, into rows of the result that nobody takes.
const body = `
extern "C" __global__ void __launch_bounds__(THREADS, 1)
#if CLUSTER > 1
__cluster_dims__(CLUSTER, 1, 1)
#endif
product(const __grid_constant__ Tiles x, const __grid_constant__ Tiles w,
#ifdef RESIDUAL
        T* residual, const T* normWeight, T* scaled, float* ownSquares,
#else
        const T* bias, Out* out, const float* squares, float eps, int normWidth,
#endif
#ifdef SCORES
        const float* temperatures, float4* tiles,
#endif
        int numRows, int numRowTiles, int xRows, int stageRows, int stages) {
  extern __shared__ char raw[];
  unsigned rawAt = (unsigned)__cvta_generic_to_shared(raw), sumsAt = (rawAt + 1023) & ~1023u, base = sumsAt + SUM_BYTES;
#ifndef RESIDUAL
  __shared__ float factors[ROWS];
#endif
  __shared__ alignas(8) unsigned long long barriers[2 * MAX_STAGES];
  unsigned filled = (unsigned)__cvta_generic_to_shared(barriers), used = filled + 8 * MAX_STAGES;
  int rank = blockIdx.x % SPLITS, job = blockIdx.x / SPLITS, rowTile = job % numRowTiles, tile = job / numRowTiles;
  int tileStride = gridDim.x / SPLITS / numRowTiles, numJobs = (NUM_TILES - tile + tileStride - 1) / tileStride;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row0 = rowTile * ROWS, stageBytes = (stageRows + TILE) * 128;
  int first = rank * STEPS / SPLITS, count = (rank + 1) * STEPS / SPLITS - first, total = numJobs * count;
  bool isCopier = threadIdx.x == WORKERS, isWorker = warp < WORKERS / 32;
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  auto release = [&](int stage) { if (lane == 0) arrive(used + 8 * stage); };
  unsigned long long policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  auto columnOf = [&](int step) { return (first + (SPLITS > 1 ? step : step % STEPS)) * 64; };
  auto tileOf = [&](int step) { return tile + (SPLITS > 1 ? 0 : step / STEPS * tileStride); };
  auto copyWeights = [&](int step, int stage) {
    int column = columnOf(step), place = tileOf(step) * COLUMNS;
    unsigned to = base + stage * stageBytes + stageRows * 128;
    expectBytes(filled + 8 * stage, (xRows + TILE) * 128);
    copyWeightTile(to, &w, column, place, filled + 8 * stage, policy);
#ifdef GATED
    copyWeightTile(to + COLUMNS * 128, &w, column, OUTPUTS + place, filled + 8 * stage, policy);
#endif
  };
  auto copyRows = [&](int step, int stage) {
    copyTile(base + stage * stageBytes, &x, columnOf(step), row0, filled + 8 * stage);
  };
  if (isCopier) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&w) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory");
    for (int stage = 0; stage < stages; stage++) { initBarrier(filled + 8 * stage, 1); initBarrier(used + 8 * stage, WORKERS / 32); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int step = 0; step < stages && step < total; step++) copyWeights(step, step);
  }
  __syncthreads();
  letNextStart();
  awaitPrevious();
  if (isCopier) {
    for (int step = 0; step < stages && step < total; step++) copyRows(step, step);
    for (int step = stages, stage = 0, parity = 0; step < total; step++) {
      await(used + 8 * stage, parity);
      copyWeights(step, stage);
      copyRows(step, stage);
      if (++stage == stages) { stage = 0; parity ^= 1; }
    }
  }
  __syncwarp();
#ifdef RESIDUAL
  // Eight lanes have a row of the tile, each every eighth group of four columns. What the sum is added to is on its way meanwhile.
  constexpr int OWN = ROWS / SPLITS, GROUPS_OF_FOUR = (COLUMNS / 4 + 7) / 8, TURNS = (OWN + WORKERS / 8 - 1) / (WORKERS / 8);
  uint2 before[TURNS][GROUPS_OF_FOUR], weight[GROUPS_OF_FOUR];
  if (isWorker) {
#pragma unroll
    for (int g = 0; g < GROUPS_OF_FOUR; g++) {
      int c = (threadIdx.x % 8 + g * 8) * 4, n = tile * COLUMNS + c;
      bool isColumn = c < COLUMNS && n < OUTPUTS;
      if (isColumn) weight[g] = *(const uint2*)(normWeight + n);
#pragma unroll
      for (int turn = 0; turn < TURNS; turn++) {
        int i = threadIdx.x / 8 + turn * (WORKERS / 8), m = row0 + rank * OWN + i;
        if (isColumn && i < OWN && m < numRows) before[turn][g] = __ldcg((const uint2*)(residual + (size_t)m * OUTPUTS + n));
      }
    }
  }
#endif
  float acc[TILE / 2];
  int stage = 0, parity = 0;
  auto multiplyTile = [&]() {
#pragma unroll 1
    for (int step = 0, before = 0; step < count; step++) {
      await(filled + 8 * stage, parity);
      unsigned a = base + stage * stageBytes + warp / 4 * 8192, b = base + stage * stageBytes + stageRows * 128;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int k = 0; k < 4; k++) multiply(acc, tileAt(a + k * 32), tileAt(b + k * 32), step + k);
      asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
      // The step before this one is through: its stage can be filled again.
      if (step > 0) release(before);
      before = stage;
      if (++stage == stages) { stage = 0; parity ^= 1; }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(stage == 0 ? stages - 1 : stage - 1);
  };
#ifndef RESIDUAL
  if (isWorker) {
    for (int r = threadIdx.x; r < ROWS && row0 + r < numRows; r += WORKERS) {
      float parts[PARTS], sum = 0.0f;
#pragma unroll
      for (int i = 0; i < PARTS; i++) parts[i] = __ldcg(squares + (size_t)i * numRows + row0 + r);
#pragma unroll
      for (int i = 0; i < PARTS; i++) sum += parts[i];
      factors[r] = rsqrtf(sum / normWidth + eps);
    }
  }
#endif
  // A thread has two rows, and of every eight columns two.
  int r0 = warp / 4 * 64 + warp % 4 * 16 + lane / 4, c0 = lane % 4 * 2;
#if !defined(RESIDUAL) && CLUSTER == 1
  if (!isWorker) return;
  asm volatile("bar.sync 1, %0;" :: "n"(WORKERS) : "memory");
#pragma unroll 1
  for (; tile < NUM_TILES; tile += tileStride) {
    multiplyTile();
#ifdef SCORES
${scoresEnd}
#else
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int r = r0 + half * 8;
      if (row0 + r >= numRows) continue;
      float factor = factors[r];
#pragma unroll
      for (int j = 0; j < COLUMNS / 8; j++) {
        int n = tile * COLUMNS + j * 8 + c0;
        if (n >= OUTPUTS) continue;
        const float* two = acc + j * 4 + half * 2;
        float y0 = two[0] * factor, y1 = two[1] * factor;
#ifdef GATED
        const float* up = two + COLUMNS / 2;
        y0 = load(store(y0)); y1 = load(store(y1));
        y0 = silu(y0) * load(store(up[0] * factor));
        y1 = silu(y1) * load(store(up[1] * factor));
#else
        if (HAS_BIAS) { y0 += load(bias[n]); y1 += load(bias[n + 1]); }
#endif
        *(unsigned*)(out + (size_t)(row0 + r) * OUTPUTS + n) = pair(y0, y1);
      }
    }
#endif
  }
#else
  if (isWorker) multiplyTile();
#if CLUSTER > 1
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  constexpr int MINE = ROWS / SPLITS, PITCH = TILE + 4;
  if (isWorker) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int r = r0 + half * 8;
      // Nobody takes the sums of rows that there are not.
      if (row0 + r >= numRows) continue;
      unsigned here = sumsAt + ((rank * MINE + r % MINE) * PITCH + c0) * 4, there;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(r / MINE));
#pragma unroll
      for (int j = 0; j < TILE / 8; j++)
        asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};"
                     :: "r"(there + j * 32), "f"(acc[j * 4 + half * 2]), "f"(acc[j * 4 + half * 2 + 1]) : "memory");
    }
  }
  __syncwarp();
  awaitCluster();
  if (!isWorker) return;
  const float* sums = (const float*)(raw + (sumsAt - rawAt));
#pragma unroll
  for (int turn = 0; turn < (MINE + WORKERS / 8 - 1) / (WORKERS / 8); turn++) {
    int i = threadIdx.x / 8 + turn * (WORKERS / 8), m = row0 + rank * MINE + i;
    bool isRow = i < MINE && m < numRows;
    float square = 0.0f;
#pragma unroll
    for (int g = 0; g < (COLUMNS / 4 + 7) / 8; g++) {
      int c = (threadIdx.x % 8 + g * 8) * 4, n = tile * COLUMNS + c;
      if (!isRow || c >= COLUMNS || n >= OUTPUTS) continue;
      float y[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int s = 0; s < SPLITS; s++) {
        float4 part = *(const float4*)(sums + (s * MINE + i) * PITCH + c);
        y[0] += part.x; y[1] += part.y; y[2] += part.z; y[3] += part.w;
      }
#ifdef RESIDUAL
      const T* old = (const T*)&before[turn][g];
      const T* factor = (const T*)&weight[g];
      float next[4];
#pragma unroll
      for (int k = 0; k < 4; k++) {
        y[k] = load(store(load(old[k]) + load(store(y[k]))));
        square += y[k] * y[k];
        next[k] = y[k] * load(factor[k]);
      }
      *(uint2*)(residual + (size_t)m * OUTPUTS + n) = make_uint2(pair(y[0], y[1]), pair(y[2], y[3]));
      *(uint2*)(scaled + (size_t)m * OUTPUTS + n) = make_uint2(pair(next[0], next[1]), pair(next[2], next[3]));
#else
#pragma unroll
      for (int k = 0; k < 4; k++) y[k] = y[k] * factors[rank * MINE + i] + (HAS_BIAS ? load(bias[n + k]) : 0.0f);
      *(uint2*)(out + (size_t)m * OUTPUTS + n) = make_uint2(pair(y[0], y[1]), pair(y[2], y[3]));
#endif
    }
#ifdef RESIDUAL
    for (int lanes = 4; lanes > 0; lanes >>= 1) square += __shfl_xor_sync(~0u, square, lanes);
    if (isRow && threadIdx.x % 8 == 0) ownSquares[(size_t)tile * numRows + m] = square;
#endif
  }
#endif
}`;
