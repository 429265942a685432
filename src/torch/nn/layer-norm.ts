/** Normalization by mean and variance. */
import { ones, type TensorOptions, zeros } from "../create.ts";
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { expectWidth } from "./expect-width.ts";
import { createParameter } from "./initialize.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of a LayerNorm. */
export interface LayerNormOptions extends TensorOptions {
  /** Added to the variance. Default 1e-5, as in PyTorch. */
  readonly eps?: number;
  /** Default true. */
  readonly hasBias?: boolean;
}

/** (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension. Starts with weight 1 and bias 0. */
export class LayerNorm extends Module {
  readonly weight: Parameter;
  readonly bias: Parameter | null;
  readonly width: number;
  readonly eps: number;

  constructor(width: number, { eps = 1e-5, hasBias = true, ...options }: LayerNormOptions = {}) {
    super();
    this.width = width;
    this.eps = eps;
    this.weight = createParameter([width], ones, options);
    this.bias = hasBias ? createParameter([width], zeros, options) : null;
  }

  forward(input: Tensor): Tensor {
    expectWidth("LayerNorm", input, this.width);
    return layerNorm(input, [this.width], this.weight, this.bias, this.eps);
  }
}

const layerNorm = op("aten::layer_norm");
