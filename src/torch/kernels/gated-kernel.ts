/**
 * silu(gate) * up of [gate | up] = x w' for many rows, on Hopper GPUs: the product and the activation in one kernel, so that gate and up are written
 * once, where a backward pass needs them, and never read again.
 *
 * A block multiplies 256 rows with 64 columns of gate and the same of up. Two blocks make a cluster: each brings its own part of the matrix and half of
 * the rows, and the halves go to both, since the second-level cache gives no more than that. Eight warps multiply, one thread copies, and three warps
 * take what a tile has become and write it, while the eight are at the next one.
 */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernels, hasKernels, numProcessors } from "./cuda-kernel.ts";
import { fitsProduct, hasProductKernels } from "./product-kernel.ts";
import { stepWidth } from "./product-plan.ts";
import { multiplication, productHelpers } from "./product-source.ts";
import { siluSource } from "./swiglu-kernel.ts";

/** With fewer rows some processors have nothing to do, or the blocks have rows that there are not. */
const minRows = 2048;
/** Columns of gate, and of up, in a tile. */
const columns = 64;
const blockRows = 256;
const stages = 4;
const stageBytes = 2 * stepWidth * (blockRows + 2 * columns);
/** What is handed over at a time: gate and up of half of the rows. */
const handedBytes = (blockRows / 2) * 4 * columns;
/** Two groups of four warps multiply; of a third group three warps write and one copies. */
const workers = 256;
const writers = 96;
const threads = workers + 128;

/** Whether the kernel computes this product. Where there is no GPU it asks libtorch nothing: small models on the CPU come by here in every layer. */
export function fitsGated(x_SD: Tensor, weight_ND: Tensor): boolean {
  if (!hasKernels(x_SD) || !hasProductKernels()) return false;
  const [S = 0, ...further] = x_SD.shape;
  return (
    S >= minRows &&
    further.length === 1 &&
    x_SD.isContiguous &&
    x_SD.dtype === weight_ND.dtype &&
    fitsProduct(weight_ND) &&
    weight_ND.size(0) % (4 * columns) === 0 &&
    // The copy engine takes nothing else. Weights that lie end to end in one piece of memory may begin anywhere.
    [x_SD, weight_ND].every((one) => one.isAligned(16))
  );
}

/** silu(gate) * up, [S, I], and [gate | up] itself, [S, 2 I], where it is kept. Gate and up are rounded first, as one by one. */
export function gatedKernel(
  x_SD: Tensor,
  weight_ND: Tensor,
  isKept: boolean,
): { readonly inner_SI: Tensor; readonly gateUp_SN: Tensor | null } {
  const [S, D] = x_SD.shape as [number, number];
  const N = weight_ND.size(0);
  const place = { dtype: x_SD.dtype, device: x_SD.device };
  const inner_SI = empty([S, N / 2], place);
  const gateUp_SN = isKept ? empty([S, N], place) : null;
  const numRowBlocks = Math.ceil(S / blockRows);
  const pairs = numRowBlocks * (N / (4 * columns));
  const launch = {
    blocks: 2 * Math.min(pairs, Math.floor(numProcessors() / 2)),
    threads,
    sharedBytes: 1024 + stages * stageBytes + handedBytes,
    overlaps: true,
  };
  kernels(`constexpr int INPUTS = ${D}, OUTPUTS = ${N / 2};\nconstexpr bool IS_KEPT = ${isKept};\n`)(
    x_SD.dtype,
    launch,
    [
      { tilesOf: x_SD, rows: blockRows / 2 },
      { tilesOf: weight_ND, rows: columns },
      ...[gateUp_SN ?? inner_SI, inner_SI, { int: S }, { int: numRowBlocks }],
    ],
  );
  return { inner_SI, gateUp_SN };
}

// A stage may be filled again when the warps of both blocks are through with it: half of what is copied into it is the other block's to copy.
const source = `
constexpr int COLUMNS = ${columns}, TILE = 2 * COLUMNS, NUM_PAIRS = OUTPUTS / COLUMNS / 2, STEPS = INPUTS / 64, ROWS = ${blockRows};
constexpr int STAGES = ${stages}, STAGE_BYTES = ${stageBytes}, ROW_BLOCKS_AT_ONCE = 8;
constexpr int WORKERS = ${workers}, WRITERS = ${writers}, THREADS = ${threads};
#define CLUSTER 2
${multiplication(2 * columns)}
${productHelpers}
${siluSource}
__device__ __forceinline__ void copyTileToBoth(unsigned to, const Tiles* from, int column, int row, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
               :: "r"(to), "l"(from), "r"(column), "r"(row), "r"(barrier), "h"((unsigned short)3) : "memory");
}
// Gate and up of half of the rows are handed over at a time, by the two groups of warps that multiply in turns. A group and those that write meet at two
// barriers: its half has been handed over; what the other group has handed over is written.
__device__ __forceinline__ void arriveAt(int barrier) { asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "n"(WORKERS / 2 + WRITERS) : "memory"); }
__device__ __forceinline__ void meetAt(int barrier) { asm volatile("bar.sync %0, %1;" :: "r"(barrier), "n"(WORKERS / 2 + WRITERS) : "memory"); }
constexpr int HANDED = 1, WRITTEN = 3;
// Where 16 bytes of a row are: eight rows, which are read or written at a time, have them in different banks.
__device__ __forceinline__ int handedPlace(int row, int piece) { return row * TILE * 2 + (piece ^ row % 8) * 16; }
// Some blocks of rows go together through all columns, so that what is read of the matrix at a time serves all of them.
struct Place { int rowBlock, pair; };
__device__ __forceinline__ Place placeOf(int job, int rowBlocks) {
  int group = job / (ROW_BLOCKS_AT_ONCE * NUM_PAIRS), inGroup = job - group * ROW_BLOCKS_AT_ONCE * NUM_PAIRS;
  int height = min(ROW_BLOCKS_AT_ONCE, rowBlocks - group * ROW_BLOCKS_AT_ONCE);
  return {group * ROW_BLOCKS_AT_ONCE + inGroup % height, inGroup / height};
}
struct alignas(16) Eight { T x[8]; };
extern "C" __global__ void __launch_bounds__(THREADS, 1) __cluster_dims__(2, 1, 1)
gated(const __grid_constant__ Tiles x, const __grid_constant__ Tiles w, T* gateUp, T* inner, int numRows, int rowBlocks) {
  extern __shared__ char raw[];
  unsigned base = ((unsigned)__cvta_generic_to_shared(raw) + 1023) & ~1023u, handedAt = base + STAGES * STAGE_BYTES;
  const char* handed = raw + (handedAt - (unsigned)__cvta_generic_to_shared(raw));
  __shared__ alignas(8) unsigned long long barriers[2 * STAGES];
  unsigned filled = (unsigned)__cvta_generic_to_shared(barriers), used = filled + 8 * STAGES;
  int rank = blockIdx.x % 2, first = blockIdx.x / 2, stride = gridDim.x / 2, numJobs = rowBlocks * NUM_PAIRS;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  bool isCopier = threadIdx.x == WORKERS + WRITERS;
  if (isCopier) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&w) : "memory");
    asm volatile("prefetch.tensormap [%0];" :: "l"(&x) : "memory");
    for (int stage = 0; stage < STAGES; stage++) { initBarrier(filled + 8 * stage, 1); initBarrier(used + 8 * stage, 2 * WORKERS / 32); }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncwarp();
  // The barriers of the other block are there now.
  awaitCluster();
  letNextStart();
  awaitPrevious();
  if (warp >= WORKERS / 32) {
    // Who multiplies has more registers than a third of them.
    asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
    if (isCopier) {
      int stage = 0, parity = 1;
      for (int job = first; job < numJobs; job += stride) {
        Place place = placeOf(job, rowBlocks);
        int column = (place.pair * 2 + rank) * COLUMNS, half = rank * ROWS / 2;
        for (int step = 0; step < STEPS; step++) {
          unsigned to = base + stage * STAGE_BYTES, barrier = filled + 8 * stage;
          await(used + 8 * stage, parity);
          expectBytes(barrier, STAGE_BYTES);
          copyTileToBoth(to + half * 128, &x, step * 64, place.rowBlock * ROWS + half, barrier);
          copyTile(to + ROWS * 128, &w, step * 64, column, barrier);
          copyTile(to + (ROWS + COLUMNS) * 128, &w, step * 64, OUTPUTS + column, barrier);
          if (++stage == STAGES) { stage = 0; parity ^= 1; }
        }
      }
    } else if (warp < (WORKERS + WRITERS) / 32) {
      for (int job = first; job < numJobs; job += stride) {
        Place place = placeOf(job, rowBlocks);
        int column0 = (place.pair * 2 + rank) * COLUMNS;
        for (int group = 0; group < 2; group++) {
          meetAt(HANDED + group);
          size_t row0 = place.rowBlock * ROWS + group * ROWS / 2;
#pragma unroll 2
          for (int i = threadIdx.x - WORKERS; i < min(ROWS / 2, numRows - (int)row0) * COLUMNS / 8; i += WRITERS) {
            int r = i / (COLUMNS / 8), piece = i % (COLUMNS / 8);
            Eight gate = *(const Eight*)(handed + handedPlace(r, piece)), y;
            Eight up = *(const Eight*)(handed + handedPlace(r, COLUMNS / 8 + piece));
#pragma unroll
            for (int k = 0; k < 8; k++) y.x[k] = store(silu(load(gate.x[k])) * load(up.x[k]));
            size_t column = column0 + piece * 8, row = row0 + r;
            *(Eight*)(inner + row * OUTPUTS + column) = y;
            if (IS_KEPT) {
              *(Eight*)(gateUp + row * 2 * OUTPUTS + column) = gate;
              *(Eight*)(gateUp + (row * 2 + 1) * OUTPUTS + column) = up;
            }
          }
          // Of rows that fill a part of the block some lanes have more than others.
          __syncwarp();
          arriveAt(WRITTEN + 1 - group);
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    auto release = [&](int stage) {
      if (lane != 0) return;
      unsigned there;
      arrive(used + 8 * stage);
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(used + 8 * stage), "r"(rank ^ 1));
      asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(there) : "memory");
    };
    float sums[2][TILE / 2];
    int stage = 0, parity = 0, group = warp / 4;
#pragma unroll 1
    for (int job = first; job < numJobs; job += stride) {
#pragma unroll 1
      for (int step = 0, before = 0; step < STEPS; step++) {
        await(filled + 8 * stage, parity);
        unsigned a = base + stage * STAGE_BYTES + group * 16384, b = base + stage * STAGE_BYTES + ROWS * 128;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int part = 0; part < 2; part++)
#pragma unroll
          for (int k = 0; k < 4; k++) multiply(sums[part], tileAt(a + part * 8192 + k * 32), tileAt(b + k * 32), step + k);
        asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step > 0) release(before);
        before = stage;
        if (++stage == STAGES) { stage = 0; parity ^= 1; }
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      release(stage == 0 ? STAGES - 1 : stage - 1);
      if (group == 1 || job != first) meetAt(WRITTEN + group);
#pragma unroll
      for (int part = 0; part < 2; part++)
#pragma unroll
        for (int j = 0; j < TILE / 8; j += 2) {
          const float* acc = sums[part] + j * 4;
          // Of four pieces of 8 x 8 a lane says where one row goes: two below one another, two beside them.
          unsigned to = handedAt + handedPlace(part * 64 + warp % 4 * 16 + lane % 16, j + lane / 16);
          asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                       :: "r"(to), "r"(pair(acc[0], acc[1])), "r"(pair(acc[2], acc[3])),
                          "r"(pair(acc[4], acc[5])), "r"(pair(acc[6], acc[7])) : "memory");
        }
      arriveAt(HANDED + group);
    }
    // Those that write say of the last tile too that it is written.
    if (group == 0 && first < numJobs) meetAt(WRITTEN);
  }
  __syncwarp();
  // Nobody's memory goes while the other block may still write to it.
  awaitCluster();
}`;

const kernels = cudaKernels("gated", source);
