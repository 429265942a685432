/** What the kernels of decode attention have in common, as text: CUDA that runs inside of them, with the names that they use. */

/** Products of fragments, and how they are read. */
export const products = `
__device__ __forceinline__ void multiply(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned pair(float low, float high) {
  unsigned packed;
  asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
template <int STEP> __device__ __forceinline__ void read(unsigned* to, const T* from) {
#pragma unroll
  for (int i = 0; i < HEAD / STEP; i++) *(uint4*)(to + 4 * i) = *(const uint4*)(from + i * STEP);
}`;

/** The same, and a block of 16 keys and their values as a warp has them in registers. */
export const fragments = `${products}
// Keys and values pass through once: they need no place in the first-level cache. What this kernel itself writes is not read
// from here.
template <int STEP> __device__ __forceinline__ void stream(unsigned* to, const T* from) {
#pragma unroll
  for (int i = 0; i < HEAD / STEP; i++)
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[4 * i]), "=r"(to[4 * i + 1]), "=r"(to[4 * i + 2]), "=r"(to[4 * i + 3]) : "l"(from + i * STEP));
}
struct Tile { unsigned k[2][2 * KSTEPS], v[4][TILES / 2]; };`;

/** The queries of a group of heads, turned by the angles of their position: `query`. Dimension d turns with d + HEAD/2. */
export const turnedQuery = `
  unsigned query[2 * KSTEPS];
#pragma unroll
  for (int i = 0; i < 2 * KSTEPS; i++) query[i] = 0;
  if (row < GROUP) {
    read<32>(query, newQ + (size_t)b * strideQ + (g * GROUP + row) * HEAD + quarter * 8);
    // Dimension d turns with d + HEAD/2.
#pragma unroll
    for (int i = 0; i < KSTEPS; i++) {
      int angle = i / 4 * 32 + quarter * 8 + i % 4 * 2;
      float2 cc = *(const float2*)(c + angle), ss = *(const float2*)(s + angle);
      unsigned x = query[i], y = query[i + KSTEPS];
      query[i] = pair(load((T)x) * cc.x - load((T)y) * ss.x, load((T)(x >> 16)) * cc.y - load((T)(y >> 16)) * ss.y);
      query[i + KSTEPS] = pair(load((T)y) * cc.x + load((T)x) * ss.x, load((T)(y >> 16)) * cc.y + load((T)(x >> 16)) * ss.y);
    }
  }`;

/** Takes the weights of a tile into `sum`, `top` and `mass`. `values` names its values, [4][TILES / 2]. */
export const addWeights = (values: string) => `
  best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
  best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
  float fade = exp2f(top - best);
  top = best;
  mass *= fade;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    weight[i] = isSeen(base + (i / 2) * 8 + quarter * 2 + i % 2) ? exp2f(weight[i] - best) : 0.0f;
    mass += weight[i];
  }
  unsigned b0 = pair(weight[0], weight[1]), b1 = pair(weight[2], weight[3]);
  float fadeA = __shfl_sync(~0u, fade, quarter * 8), fadeB = __shfl_sync(~0u, fade, quarter * 8 + 4);
#pragma unroll
  for (int t = 0; t < TILES / 2; t++) {
    sum[t][0] *= fadeA; sum[t][1] *= fadeB; sum[t][2] *= fadeA; sum[t][3] *= fadeB;
    multiply(sum[t], __byte_perm(${values}[0][t], ${values}[1][t], 0x5410), __byte_perm(${values}[0][t], ${values}[1][t], 0x7632),
             __byte_perm(${values}[2][t], ${values}[3][t], 0x5410), __byte_perm(${values}[2][t], ${values}[3][t], 0x7632), b0, b1);
  }`;

/**
 * Leaves 64 dimensions of a warp's `sum`, those of `half`, in `sums` [WARPS][8][..], four to a place. Of two neighboring places the order
 * is turned in every other pair, so that no two of eight threads meet in a bank: dimensions 4i to 4i + 3 are at i ^ i / 2 % 2.
 */
export const leaveSums = (half: string, firstPlace: string) => `
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const float *x = sum[${half} * 4 + j * 2] + i, *y = sum[${half} * 4 + j * 2 + 1] + i;
        sums[warp][quarter * 2 + i][${firstPlace} + row * 2 + (j ^ row % 2)] = make_float4(x[0], x[2], y[0], y[2]);
      }
    }`;

/** The spans of a row as one, by the block that is last: reads what the others wrote by `fetch`. What is done beside storing a value is `also`. */
export const joinSpans = (fetch: string, also = "") => `
  for (int i = threadIdx.x; i < GROUP * used; i += THREADS) {
    const float* mark = stats + ((first + i / used) * splits + i % used) * 2;
    spanTops[i / used][i % used] = ${fetch}(mark);
    spanMasses[i / used][i % used] = ${fetch}(mark + 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < GROUP * HEAD; i += THREADS) {
    int r = i / HEAD, d = i % HEAD;
    const float* parts = partial + (first + r) * splits * HEAD + d;
    float best = sinkOf(r), total = 0.0f, value = 0.0f;
    for (int j = 0; j < used; j++) best = fmaxf(best, spanTops[r][j]);
#pragma unroll 4
    for (int j = 0; j < used; j++) {
      float share = exp2f(spanTops[r][j] - best);
      total += spanMasses[r][j] * share;
      value += ${fetch}(parts + j * HEAD) * share;
    }
    if (HAS_SINKS) total += exp2f(sinkOf(r) - best);
    out[(first + r) * HEAD + d] = store(value / total);${also}
  }`;
