/** A model and a batch whose values are formulas, so that every process makes the same. */
import { tensor } from "../../../src/torch/create.ts";
import { Module, Parameter } from "../../../src/torch/nn/module.ts";
import { tensorScope } from "../../../src/torch/scope.ts";
import type { Tensor } from "../../../src/torch/tensor.ts";

const NUM_SAMPLES = 6;

/** tanh(x W1 + b1) W2, and two parameters that its output does not use. */
export class SmallModel extends Module {
  readonly inner: Parameter;
  readonly innerBias: Parameter;
  readonly outer: Parameter;
  readonly rarelyUsed = new Parameter(tensor([1, 2]));
  readonly frozen = new Parameter(tensor([3]), { isTrainable: false });

  constructor({ width = 4 } = {}) {
    super();
    this.inner = new Parameter(wave([3, width], 0.7));
    this.innerBias = new Parameter(wave([width], 1.3));
    this.outer = new Parameter(wave([width, 2], 0.4));
  }

  forward(inputs: Tensor): Tensor {
    return inputs.matmul(this.inner).add(this.innerBias).tanh().matmul(this.outer);
  }
}

/** The samples of this rank, dealt out in turn. */
export function batchPart(rank: number, worldSize: number): Tensor {
  const all = wave([NUM_SAMPLES, 3], 0.9);
  const rows = Array.from({ length: NUM_SAMPLES }, (_, i) => i).filter((i) => i % worldSize === rank);
  return all.indexSelect(0, tensor(rows, { dtype: "int64" }));
}

/** The part's share of the mean squared output of the whole batch: the denominator is global. */
export function lossOfPart(model: SmallModel, inputs: Tensor): Tensor {
  return model.forward(inputs).square().sum().div(NUM_SAMPLES);
}

export function gradientsByName(model: SmallModel): Record<string, number[] | null> {
  const named = [...model.namedParameters()];
  return Object.fromEntries(
    named.map(([name, parameter]) => [name, tensorScope(() => parameter.grad?.toArray() ?? null)]),
  );
}

function wave(shape: readonly number[], frequency: number): Tensor {
  const numel = shape.reduce((product, size) => product * size, 1);
  return tensor(
    Float32Array.from({ length: numel }, (_, i) => Math.sin(frequency * (i + 1))),
    shape,
  );
}
