/** Bounds on rewards and advantages. */
import type { Tensor } from "../../torch/tensor.ts";
import { expectPositive } from "../expect-batch.ts";

/** clamp(x, -bound, bound), for rewards or advantages of any shape. A bound of 0 or less is an error. */
export function clip(values: Tensor, bound: number): Tensor {
  expectPositive("bound", bound);
  return values.clamp(-bound, bound);
}
