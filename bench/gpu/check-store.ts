/** What stores the heads of prompts in a cache, against its composed form, on random values. */
import { arange, cat, randn, zeros } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { storeKernel } from "../../src/torch/kernels/store-kernel.ts";
import type { Tensor } from "../../src/torch/tensor.ts";

/** Compares two tensors and prints the largest difference. */
type Report = (name: string, dtype: DType, got: Tensor, expected: Tensor, tolerance: number) => void;

const device = "cuda";

/** Queries and keys of prompts are turned; keys and values are where the slots say, and nowhere else. */
export function checkStore(dtype: DType, report: Report): void {
  const [S, H, G, K] = [77, 14, 2, 64];
  const qkv = randn([S, H + 2 * G, K], { device }).to(dtype);
  const [q_SHK, k_SGK, v_SGK] = qkv.splitSizes([H, G, G], 1) as [Tensor, Tensor, Tensor];
  const angle = randn([S, K / 2], { device });
  const turned = (x: Tensor) => {
    const [a, b] = x.to("float64").chunk(2, -1) as [Tensor, Tensor];
    const [c, s] = [angle.cos().to("float64").unsqueeze(1), angle.sin().to("float64").unsqueeze(1)];
    return cat([a.mul(c).sub(b.mul(s)), b.mul(c).add(a.mul(s))], -1);
  };
  const [keySlots, valueSlots] = [zeros([2 * S, G, K], { device, dtype }), zeros([2 * S, G, K], { device, dtype })];
  const slots = arange(0, S, { device }).mul(2).add(1);
  const cache = { keySlots, valueSlots, slots_S: slots.to("int32") };
  const rotated = storeKernel({ q_SHK, k_SGK, v_SGK }, { cos_SK: angle.cos(), sin_SK: angle.sin() }, cache);
  report("store queries", dtype, rotated.q_SHK, turned(q_SHK), 1e-6);
  report("store keys", dtype, rotated.k_SGK, turned(k_SGK), 1e-6);
  const spread = (x: Tensor) =>
    zeros([2 * S, G, K], { device, dtype: "float64" }).indexCopy_(0, slots, x.to("float64"));
  report("stored keys", dtype, keySlots, spread(rotated.k_SGK), 1e-6);
  report("stored values", dtype, valueSlots, spread(v_SGK), 1e-6);
}
