/** The MLP that all networks of teacher and student are made of: layers of Linear, LayerNorm and Mish. */
import { type InitializeOptions, initialize } from "../../../torch/nn/initialize.ts";
import { LayerNorm } from "../../../torch/nn/layer-norm.ts";
import { Linear } from "../../../torch/nn/linear.ts";
import { Module } from "../../../torch/nn/module.ts";
import { op } from "../../../torch/operator.ts";
import type { Tensor } from "../../../torch/tensor.ts";

/** The hidden layers, from [..., inputSize] to [..., last width]. */
export class MishTrunk extends Module {
  readonly layers: readonly Linear[];
  readonly norms: readonly LayerNorm[];

  constructor(inputSize: number, widths: readonly number[], options: InitializeOptions) {
    super();
    this.layers = widths.map((width, i) => orthogonalLinear(widths[i - 1] ?? inputSize, width, 1, options));
    this.norms = widths.map((width) => new LayerNorm(width, options));
  }

  forward(input: Tensor): Tensor {
    return this.layers.reduce((x, layer, i) => mish(this.norms[i]!.forward(layer.forward(x))), input);
  }
}

/** The shape of a network with a linear output. */
interface MishMLPOptions extends InitializeOptions {
  readonly inputSize: number;
  readonly hidden: readonly number[];
  readonly outputSize: number;
  /** Gain of the output layer's weight. Actions use 0.01, so that the first actions are close to 0. */
  readonly outputGain: number;
}

/** Hidden layers and a linear output. */
export class MishMLP extends Module {
  readonly trunk: MishTrunk;
  readonly head: Linear;

  constructor({ inputSize, hidden, outputSize, outputGain, ...options }: MishMLPOptions) {
    super();
    this.trunk = new MishTrunk(inputSize, hidden, options);
    this.head = orthogonalLinear(hidden.at(-1) ?? inputSize, outputSize, outputGain, options);
  }

  forward(input: Tensor): Tensor {
    return this.head.forward(this.trunk.forward(input));
  }
}

/** A linear layer with orthogonal weights, scaled by `gain`, and a bias of 0. */
export function orthogonalLinear(
  inputSize: number,
  outputSize: number,
  gain: number,
  options: InitializeOptions,
): Linear {
  return new Linear(inputSize, outputSize, {
    ...options,
    initialWeight: initialize.orthogonal(gain),
    initialBias: initialize.zeros,
  });
}

const mish = op("aten::mish");
