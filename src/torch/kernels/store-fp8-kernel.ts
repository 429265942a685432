/** Keys and values into the slots of a cache of 8-bit floats, and back: a scale for every token and head, as fp8.ts defines it. */
import { empty } from "../create.ts";
import type { DType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";
import { fp8Source } from "./fp8-kernel.ts";
import type { PagedFp8Keys } from "./paged-fp8-kernel.ts";

const threads = 256;

/** Puts k and v, [S, G, K] with contiguous tokens, into slots [S], int32, of a layer. K is 64, 128 or 256. */
export function storeFp8Kernel(k_SGK: Tensor, v_SGK: Tensor, paged: PagedFp8Keys, slots_S: Tensor): void {
  const [S, G, K] = k_SGK.shape as [number, number, number];
  const total = S * 2 * G * (K / 8);
  storeFor(G, K)(k_SGK.dtype, { blocks: Math.ceil(total / threads), threads }, [
    ...[k_SGK, v_SGK, slots_S, paged.keys, paged.values, paged.keyScales, paged.valueScales],
    ...[k_SGK, v_SGK].map((heads) => ({ int: (heads.strides[0] ?? 0) / 8 })),
    { int: total },
  ]);
}

/** The keys and values of slots [C], int32, as [C, G, K] in the type that is asked for. */
export function loadFp8Kernel(
  paged: PagedFp8Keys,
  slots_C: Tensor,
  dtype: DType,
): { readonly k_CGK: Tensor; readonly v_CGK: Tensor } {
  const [, , G, K] = paged.keys.shape as [number, number, number, number];
  const C = slots_C.size(0);
  const { device } = slots_C;
  const made = { k_CGK: empty([C, G, K], { device, dtype }), v_CGK: empty([C, G, K], { device, dtype }) };
  const total = C * 2 * G * (K / 8);
  loadFor(G, K)(dtype, { blocks: Math.ceil(total / threads), threads }, [
    ...[paged.keys, paged.values, paged.keyScales, paged.valueScales, slots_C, made.k_CGK, made.v_CGK],
    { int: total },
  ]);
  return made;
}

const [storeFor, loadFor] = ["store", "load"].map((way) => {
  const kernels = new Map<string, ReturnType<typeof cudaKernel>>();
  return (G: number, K: number) => {
    const constants = `constexpr int GROUPS = ${G}, LANES = ${K / 8};`;
    const kernel = kernels.get(constants) ?? cudaKernel(`fp8_${way}`, constants + source);
    kernels.set(constants, kernel);
    return kernel;
  };
}) as [
  (G: number, K: number) => ReturnType<typeof cudaKernel>,
  (G: number, K: number) => ReturnType<typeof cudaKernel>,
];

// LANES threads have a head, eight dimensions each. All threads of a warp go along, also those beyond the end.
const source = `${fp8Source}
struct Place { int token, group; bool isKey; };
__device__ __forceinline__ Place placeOf(int row) {
  int rest = row % (2 * GROUPS);
  return {row / (2 * GROUPS), rest % GROUPS, rest < GROUPS};
}
extern "C" __global__ void fp8_store(const Pack* k, const Pack* v, const int* slots, uint2* keys, uint2* values,
                                     float* keyScales, float* valueScales, int strideK, int strideV, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i % LANES;
  Place place = placeOf(min(i, total - 1) / LANES);
  const Pack* from = place.isKey ? k + (size_t)place.token * strideK : v + (size_t)place.token * strideV;
  Pack a = from[place.group * LANES + lane];
  float x[8], largest = 0.0f;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    x[j] = load(a.x[j]);
    largest = fmaxf(largest, fabsf(x[j]));
  }
#pragma unroll
  for (int step = LANES / 2; step > 0; step >>= 1) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  if (i >= total) return;
  float scale = scaleOf(largest);
  int slot = slots[place.token];
  (place.isKey ? keys : values)[((size_t)slot * GROUPS + place.group) * LANES + lane] = encode8(x, scale);
  if (lane == 0) (place.isKey ? keyScales : valueScales)[((size_t)(slot / 16) * GROUPS + place.group) * 16 + slot % 16] = scale;
}
__device__ __forceinline__ void decode2(float* to, unsigned codes, float scale) {
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)codes));
  float low, high;
  asm("{.reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(low), "=f"(high) : "r"(pair));
  to[0] = low * scale;
  to[1] = high * scale;
}
extern "C" __global__ void fp8_load(const uint2* keys, const uint2* values, const float* keyScales, const float* valueScales,
                                    const int* slots, Pack* k, Pack* v, int total) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i % LANES;
  if (i >= total) return;
  Place place = placeOf(i / LANES);
  int slot = slots[place.token];
  uint2 codes = (place.isKey ? keys : values)[((size_t)slot * GROUPS + place.group) * LANES + lane];
  float scale = (place.isKey ? keyScales : valueScales)[((size_t)(slot / 16) * GROUPS + place.group) * 16 + slot % 16];
  float x[8];
  decode2(x, codes.x & 0xffff, scale); decode2(x + 2, codes.x >> 16, scale);
  decode2(x + 4, codes.y & 0xffff, scale); decode2(x + 6, codes.y >> 16, scale);
  Pack y;
#pragma unroll
  for (int j = 0; j < 8; j++) y.x[j] = store(x[j]);
  (place.isKey ? k : v)[((size_t)place.token * GROUPS + place.group) * LANES + lane] = y;
}`;
