/** Rotary embedding in one pass, reading heads where they lie in a wider row. */
import { empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const threads = 256;

/**
 * x [S, H, K] with any stride between tokens and contiguous heads, to a contiguous [S, H, K]. cos and sin are [S, K/2] in
 * float32; `sign` -1 rotates back.
 */
export function rotateKernel(x_SHK: Tensor, cos_SK: Tensor, sin_SK: Tensor, sign: 1 | -1): Tensor {
  const [S, H, K] = x_SHK.shape as [number, number, number];
  const { dtype, device } = x_SHK;
  const out_SHK = empty([S, H, K], { dtype, device });
  const packsPerHalf = K / 16;
  const total = S * H * packsPerHalf;
  kernel(dtype, { blocks: Math.ceil(total / threads), threads }, [
    x_SHK,
    cos_SK,
    sin_SK,
    out_SHK,
    { int: total },
    { int: H },
    { int: packsPerHalf },
    { int: (x_SHK.strides[0] ?? 0) / 8 },
    { float: sign },
  ]);
  return out_SHK;
}

/** Whether the heads of one token lie next to each other and can be read eight values at a time. */
export function isRotatable(x_SHK: Tensor): boolean {
  const [tokenStride, headStride, elementStride] = x_SHK.strides as [number, number, number];
  const K = x_SHK.size(2);
  return elementStride === 1 && headStride === K && K % 16 === 0 && tokenStride % 8 === 0;
}

// A thread rotates eight pairs: a pack of the first half of a head with the pack at the same place of the second.
const kernel = cudaKernel(
  "rotate",
  `
extern "C" __global__ void rotate(const Pack* x, const float4* cosine, const float4* sine, Pack* out, int total, int heads,
                                  int half, int stride, float sign) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  int k = i % half;
  int head = (i / half) % heads;
  int token = i / (half * heads);
  float c[8], s[8];
  *(float4*)c = cosine[(token * half + k) * 2];
  *(float4*)(c + 4) = cosine[(token * half + k) * 2 + 1];
  *(float4*)s = sine[(token * half + k) * 2];
  *(float4*)(s + 4) = sine[(token * half + k) * 2 + 1];
  const Pack* from = x + (size_t)token * stride + head * 2 * half + k;
  Pack* to = out + ((size_t)token * heads + head) * 2 * half + k;
  Pack a = from[0], b = from[half], p, q;
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float u = load(a.x[j]), v = load(b.x[j]), w = sign * s[j];
    p.x[j] = store(u * c[j] - v * w);
    q.x[j] = store(v * c[j] + u * w);
  }
  to[0] = p;
  to[half] = q;
}`,
);
