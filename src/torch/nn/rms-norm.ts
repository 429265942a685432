/** Normalization by root mean square. */
import { ones, type TensorOptions } from "../create.ts";
import { rmsNorm } from "../fused.ts";
import type { Tensor } from "../tensor.ts";
import { expectWidth } from "./expect-width.ts";
import { createParameter } from "./initialize.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of an RMSNorm. */
export interface RMSNormOptions extends TensorOptions {
  /** Added to the mean square. Default 1e-6, which the Llama and Qwen families use; PyTorch's depends on the type. */
  readonly eps?: number;
}

/** x / sqrt(mean(x^2) + eps) * weight over the last dimension. Starts with weight 1. */
export class RMSNorm extends Module {
  readonly weight: Parameter;
  readonly width: number;
  readonly eps: number;

  constructor(width: number, { eps = 1e-6, ...options }: RMSNormOptions = {}) {
    super();
    this.width = width;
    this.eps = eps;
    this.weight = createParameter([width], ones, options);
  }

  forward(input: Tensor): Tensor {
    expectWidth("RMSNorm", input, this.width);
    return rmsNorm(input, this.weight, this.eps);
  }
}
