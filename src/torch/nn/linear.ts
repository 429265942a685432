/** A learned linear map of the last dimension. */
import { op } from "../operator.ts";
import type { Tensor } from "../tensor.ts";
import { expectWidth } from "./expect-width.ts";
import { createParameter, type InitializeOptions, type Initializer, initialize } from "./initialize.ts";
import { Module, type Parameter } from "./module.ts";

/** Options of a Linear. */
export interface LinearOptions extends InitializeOptions {
  /** Default true. */
  readonly hasBias?: boolean;
  /** Default uniform within 1 / sqrt(inputSize), as in PyTorch. */
  readonly initialWeight?: Initializer;
  /** Default uniform within 1 / sqrt(inputSize), as in PyTorch. */
  readonly initialBias?: Initializer;
}

/** x W' + b for x of [..., inputSize]; W is [outputSize, inputSize]. */
export class Linear extends Module {
  readonly inputSize: number;
  readonly outputSize: number;
  readonly weight: Parameter;
  readonly bias: Parameter | null;

  constructor(inputSize: number, outputSize: number, options: LinearOptions) {
    super();
    this.inputSize = inputSize;
    this.outputSize = outputSize;
    const bound = 1 / Math.sqrt(inputSize);
    const { hasBias = true, initialBias = initialize.uniform(-bound, bound) } = options;
    // The gain that PyTorch's layer uses: kaiming for a leaky ReLU of slope sqrt(5).
    const { initialWeight = initialize.kaimingUniform(Math.sqrt(2 / 6)) } = options;
    this.weight = createParameter([outputSize, inputSize], initialWeight, options);
    this.bias = hasBias ? createParameter([outputSize], initialBias, options) : null;
  }

  forward(input: Tensor): Tensor {
    expectWidth("Linear", input, this.inputSize);
    return linear(input, this.weight, this.bias);
  }
}

const linear = op("aten::linear");
