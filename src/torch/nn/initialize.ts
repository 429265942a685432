/**
 * Initial values of parameters.
 *
 * An initializer takes a shape and returns a new tensor. Random ones draw float32 on the CPU and convert afterwards, so
 * one seed gives the same parameters on every device, and the same as PyTorch's `nn.init` gives for that seed.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../autograd.ts";
import { empty, ones, type TensorOptions, zeros } from "../create.ts";
import { partOf, type Split } from "../distributed/split.ts";
import { op } from "../operator.ts";
import type { Generator } from "../random.ts";
import { tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { Parameter } from "./module.ts";

/** Makes the initial values of a parameter. */
export type Initializer = (shape: readonly number[], options: InitializeOptions) => Tensor;

/** The type and device of a parameter, and the generator its values are drawn from. */
export interface InitializeOptions extends TensorOptions {
  /** A generator of the CPU, also for parameters on another device. */
  readonly generator: Generator;
}

/** The initializers. `gain` scales the result: 1 for linear outputs, sqrt(2) before a ReLU, 5/3 before a tanh. */
export const initialize = {
  zeros,
  ones,
  /** An uninitialized tensor, made on the device: for parameters that a checkpoint fills. */
  uninitialized: empty,
  /** Uniform in [low, high). */
  uniform: (low: number, high: number) => drawn((target, generator) => ops.uniform_(target, low, high, generator)),
  normal: (mean: number, std: number) => drawn((target, generator) => ops.normal_(target, mean, std, generator)),
  truncatedNormal,
  /** Uniform with variance gain^2 * 2 / (fan in + fan out). Glorot and Bengio 2010. */
  xavierUniform: (gain = 1) => drawnByFans(({ fanIn, fanOut }) => gain * Math.sqrt(2 / (fanIn + fanOut)), uniformOf),
  /** Normal with variance gain^2 * 2 / (fan in + fan out). */
  xavierNormal: (gain = 1) => drawnByFans(({ fanIn, fanOut }) => gain * Math.sqrt(2 / (fanIn + fanOut)), normalOf),
  /** Uniform with variance gain^2 / fan in. He et al. 2015. */
  kaimingUniform: (gain = Math.SQRT2) => drawnByFans(({ fanIn }) => gain / Math.sqrt(fanIn), uniformOf),
  /** Normal with variance gain^2 / fan in. */
  kaimingNormal: (gain = Math.SQRT2) => drawnByFans(({ fanIn }) => gain / Math.sqrt(fanIn), normalOf),
  orthogonal,
} as const;

/**
 * A new parameter. Belongs to no scope.
 *
 * @param split the part of it that this rank has. The values are made whole first, so that all ranks together have those of one.
 */
export function createParameter<Options extends TensorOptions>(
  shape: readonly number[],
  initializer: (shape: readonly number[], options: Options) => Tensor,
  options: Options,
  split: Split | null = null,
): Parameter {
  return tensorScope(() => {
    const whole = initializer(shape, options);
    const parameter = new Parameter(split === null ? whole : partOf(whole, split).contiguous().clone());
    parameter.shard = split;
    return parameter;
  });
}

/** Overwrites a parameter with new initial values, on whatever device it is. */
export function reinitialize(parameter: Parameter, initializer: Initializer, generator: Generator): void {
  noGrad(() => tensorScope(() => void parameter.copy_(initializer(parameter.shape, { generator }))));
}

/**
 * Normal, cut off at `low` and `high`. Default two standard deviations either side of the mean, where PyTorch's bounds
 * of -2 and 2 do not follow `std` and so cut nothing at the usual 0.02.
 */
function truncatedNormal(mean: number, std: number, low = mean - 2 * std, high = mean + 2 * std): Initializer {
  const from = 2 * standardNormalCdf((low - mean) / std) - 1;
  const to = 2 * standardNormalCdf((high - mean) / std) - 1;
  return drawn((target, generator) => {
    ops.uniform_(target, from, to, generator);
    ops.erfinv_(target);
    target
      .mul_(std * Math.SQRT2)
      .add_(mean)
      .clamp_(low, high);
  });
}

/** Rows (or columns, where there are more rows) that are orthonormal, times `gain`. Saxe et al. 2013. */
function orthogonal(gain = 1): Initializer {
  return drawn((target, generator) => {
    const [rows, columns] = matrixSizes(target.shape);
    const draws = ops.normal_(empty([rows, columns]), 0, 1, generator);
    const [q, r] = ops.qr(rows < columns ? draws.t() : draws);
    // The sign of R's diagonal makes Q uniform over all orthogonal matrices.
    const signed = q.mul(ops.diagonal(r, 0, 0, 1).sign());
    target.copy_((rows < columns ? signed.t() : signed).reshape(...target.shape)).mul_(gain);
  });
}

type Draw = (target: Tensor, generator: Generator) => void;

function drawn(draw: Draw): Initializer {
  return (shape, { generator, dtype = "float32", device = "cpu" }) =>
    noGrad(() =>
      tensorScope(() => {
        const target = empty(shape);
        draw(target, generator);
        return target.to(dtype).toDevice(device);
      }),
    );
}

function drawnByFans(stdOf: (fans: Fans) => number, draw: (std: number) => Draw): Initializer {
  return (shape, options) => drawn(draw(stdOf(fansOf(shape))))(shape, options);
}

function uniformOf(std: number): Draw {
  const bound = Math.sqrt(3) * std;
  return (target, generator) => ops.uniform_(target, -bound, bound, generator);
}

function normalOf(std: number): Draw {
  return (target, generator) => ops.normal_(target, 0, std, generator);
}

interface Fans {
  readonly fanIn: number;
  readonly fanOut: number;
}

/** A weight is [out, in, ...], and what follows is the field that one output sees. */
function fansOf(shape: readonly number[]): Fans {
  const [rows, columns] = matrixSizes(shape);
  const field = columns / shape[1]!;
  return { fanIn: columns, fanOut: rows * field };
}

function matrixSizes([rows, ...rest]: readonly number[]): [rows: number, columns: number] {
  if (rows === undefined || rest.length === 0) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `This initializer needs a weight with two dimensions or more: got [${rows ?? ""}]. ` +
        "Use initialize.uniform, normal or zeros for vectors.",
    );
  }
  return [rows, rest.reduce((product, size) => product * size, 1)];
}

function standardNormalCdf(x: number): number {
  return tensorScope(() => (1 + ops.erf(ops.scalar(x / Math.SQRT2, "float64")).item()) / 2);
}

const ops = {
  uniform_: op("aten::uniform_"),
  normal_: op("aten::normal_"),
  erf: op("aten::erf"),
  erfinv_: op("aten::erfinv_"),
  qr: op("aten::linalg_qr"),
  diagonal: op("aten::diagonal"),
  scalar: op("aten::scalar_tensor"),
} as const;
