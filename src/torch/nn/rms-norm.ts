/** Normalization by root mean square. */
import { full, ones, type TensorOptions } from "../create.ts";
import { rmsNorm } from "../fused.ts";
import type { Tensor } from "../tensor.ts";
import { expectWidth } from "./expect-width.ts";
import { createParameter } from "./initialize.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of an RMSNorm. */
export interface RMSNormOptions extends TensorOptions {
  /** Added to the mean square. Default 1e-6, which the Llama and Qwen families use; PyTorch's depends on the type. */
  readonly eps?: number;
  /** Added to the weight. Default 0; the Gemma family has 1. */
  readonly offset?: number;
}

/** x / sqrt(mean(x^2) + eps) * (weight + offset) over the last dimension. Starts with a factor of 1. */
export class RMSNorm extends Module {
  readonly weight: Parameter;
  readonly width: number;
  readonly eps: number;
  readonly offset: number;

  constructor(width: number, { eps = 1e-6, offset = 0, ...options }: RMSNormOptions = {}) {
    super();
    this.width = width;
    this.eps = eps;
    this.offset = offset;
    const start = (shape: readonly number[], place: TensorOptions) => full(shape, 1 - offset, place);
    this.weight = createParameter([width], offset === 0 ? ones : start, options);
  }

  forward(input: Tensor): Tensor {
    expectWidth("RMSNorm", input, this.width);
    if (this.offset === 0) return rmsNorm(input, this.weight, this.eps);
    // In float32 up to the end: 16 bits beside 1 would lose most of a small weight.
    const factor = this.weight.to("float32").add(this.offset);
    return rmsNorm(input.to("float32"), factor, this.eps).to(input.dtype);
  }
}
