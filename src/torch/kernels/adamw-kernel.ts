/** One step of AdamW for one tensor, with the factor that bounds the norm of all gradients taken on the way: each value is read and written once. */
import type { AdamWSettings } from "../optim/adamw-update.ts";
import type { Tensor } from "../tensor.ts";
import { cudaKernel } from "./cuda-kernel.ts";

const threads = 256;

/** Tensors of one type and size; weight and moments are changed in place. */
interface AdamWTensor {
  readonly weight: Tensor;
  readonly gradient: Tensor;
  readonly firstMoment: Tensor;
  readonly secondMoment: Tensor;
}

/** `factor`, of one element in float32, is multiplied with the gradient; null is 1. `step` counts from 1. Sizes must be multiples of 8. */
export function adamwKernel_(
  { weight, gradient, firstMoment, secondMoment }: AdamWTensor,
  factor: Tensor | null,
  step: number,
  { lr, betas: [beta1, beta2], eps, weightDecay }: AdamWSettings,
): void {
  const packs = weight.numel / 8;
  kernel(weight.dtype, { blocks: Math.ceil(packs / threads), threads }, [
    ...[weight, gradient, firstMoment, secondMoment, factor ?? weight],
    ...[packs, factor === null ? 0 : 1].map((int) => ({ int })),
    ...[1 - lr * weightDecay, beta1, 1 - beta1, beta2, 1 - beta2].map((float) => ({ float })),
    ...[lr / (1 - beta1 ** step), 1 / Math.sqrt(1 - beta2 ** step), eps].map((float) => ({ float })),
  ]);
}

const kernel = cudaKernel(
  "adamw",
  `
extern "C" __global__ void __launch_bounds__(256) adamw(Pack* weight, const Pack* gradient, Pack* first, Pack* second, const float* factor, int packs,
                                 int hasFactor, float keep, float beta1, float rest1, float beta2, float rest2, float rate,
                                 float spread, float eps) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  Pack w = weight[i], g = gradient[i], m = first[i], v = second[i];
  float scale = hasFactor ? *factor : 1.0f;
#pragma unroll
  for (int k = 0; k < 8; k++) {
    float d = load(g.x[k]) * scale, mean = beta1 * load(m.x[k]) + rest1 * d, square = beta2 * load(v.x[k]) + rest2 * d * d;
    w.x[k] = store(load(w.x[k]) * keep - rate * mean / (sqrtf(square) * spread + eps));
    m.x[k] = store(mean);
    v.x[k] = store(square);
  }
  weight[i] = w;
  first[i] = m;
  second[i] = v;
}`,
);
