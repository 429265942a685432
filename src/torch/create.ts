/** New tensors: from values, filled, random, and joined from others. */
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { type Device, type DType, dtypeOf, isFloating, type TensorData } from "./dtype.ts";
import type { Scalar } from "./generated/operators.ts";
import { op } from "./operator.ts";
import type { Generator } from "./random.ts";
import { tensorScope } from "./scope.ts";
import { Tensor } from "./tensor.ts";

/** The device and type of a new tensor. The type is float32 unless named or given by the data. */
export interface TensorOptions {
  readonly dtype?: DType;
  readonly device?: Device;
}

/** Numbers nested to any depth; every level has equal lengths. */
export type NestedNumbers = number | readonly NestedNumbers[];

/** A tensor with these values: nested numbers, or a typed array with a shape. */
export function tensor(values: NestedNumbers, options?: TensorOptions): Tensor;
export function tensor(values: TensorData, shape: readonly number[], options?: TensorOptions): Tensor;
export function tensor(
  values: NestedNumbers | TensorData,
  shapeOrOptions?: readonly number[] | TensorOptions,
  options?: TensorOptions,
): Tensor {
  if (isTypedArray(values)) {
    return fromTypedArray(values, isShape(shapeOrOptions) ? shapeOrOptions : [values.length], options ?? {});
  }
  const shape: number[] = [];
  for (let level: NestedNumbers | undefined = values; typeof level === "object"; level = level[0]) {
    shape.push(level.length);
  }
  const flat = Float64Array.from(flatten(values, shape, []));
  return fromTypedArray(flat, shape, { dtype: "float32", ...(isShape(shapeOrOptions) ? {} : shapeOrOptions) });
}

export function zeros(shape: readonly number[], { dtype = "float32", device = "cpu" }: TensorOptions = {}): Tensor {
  return ops.zeros(shape, dtype, null, device);
}

export function ones(shape: readonly number[], { dtype = "float32", device = "cpu" }: TensorOptions = {}): Tensor {
  return ops.ones(shape, dtype, null, device);
}

/** An uninitialized tensor. */
export function empty(shape: readonly number[], { dtype = "float32", device = "cpu" }: TensorOptions = {}): Tensor {
  return ops.empty(shape, dtype, null, device);
}

/** An uninitialized tensor on the host, in memory that a GPU copies from and to by itself. */
export function pinned(shape: readonly number[], dtype: DType): Tensor {
  return ops.empty(shape, dtype, null, "cpu", true);
}

export function full(
  shape: readonly number[],
  value: Scalar,
  { dtype = "float32", device = "cpu" }: TensorOptions = {},
): Tensor {
  return ops.full(shape, value, dtype, null, device);
}

export function zerosLike(like: Tensor): Tensor {
  return ops.zerosLike(like);
}

export function onesLike(like: Tensor): Tensor {
  return ops.onesLike(like);
}

export function emptyLike(like: Tensor): Tensor {
  return ops.emptyLike(like);
}

/** start, start + 1, ... below end. int64 unless another type is given. */
export function arange(start: number, end: number, { dtype = "int64", device = "cpu" }: TensorOptions = {}): Tensor {
  return ops.arange(start, end, dtype, null, device);
}

/** Random numbers, uniform in [0, 1). */
export function rand(shape: readonly number[], { generator, ...options }: RandomOptions = {}): Tensor {
  const { dtype = "float32", device = "cpu" } = options;
  return ops.rand(shape, generator ?? null, dtype, null, device);
}

/** Random numbers from the standard normal distribution. */
export function randn(shape: readonly number[], { generator, ...options }: RandomOptions = {}): Tensor {
  const { dtype = "float32", device = "cpu" } = options;
  return ops.randn(shape, generator ?? null, dtype, null, device);
}

/** Random integers from low up to, but not including, high. */
export function randint(
  low: number,
  high: number,
  shape: readonly number[],
  { generator, ...options }: RandomOptions = {},
): Tensor {
  const { dtype = "int64", device = "cpu" } = options;
  return ops.randint(low, high, shape, generator ?? null, dtype, null, device);
}

export interface RandomOptions extends TensorOptions {
  readonly generator?: Generator;
}

/** Draws indices by weight, one row of draws per row of weights. */
export function multinomial(
  weights: Tensor,
  draws: number,
  { replacement = false, generator = null as Generator | null } = {},
): Tensor {
  return ops.multinomial(weights, draws, replacement, generator);
}

export function cat(tensors: readonly Tensor[], dim = 0): Tensor {
  return ops.cat(tensors, dim);
}

export function stack(tensors: readonly Tensor[], dim = 0): Tensor {
  return ops.stack(tensors, dim);
}

function fromTypedArray(data: TensorData, shape: readonly number[], { dtype, device = "cpu" }: TensorOptions): Tensor {
  const stored = dtypeOf(data, dtype);
  if (dtype !== undefined && isFloating(stored)) expectRange(data, dtype);
  const made = () => new Tensor(native.fromTypedArray(data, stored, shape));
  if ((dtype ?? stored) === stored && device === "cpu") return made();
  if (device.startsWith("cuda")) return tensorScope(() => uploaded(data, shape, stored, device).to(dtype ?? stored));
  return tensorScope(() =>
    made()
      .to(dtype ?? stored)
      .toDevice(device),
  );
}

/** Through memory that the device reads by itself, in its own time: a plain copy would wait until all work before it is done. */
function uploaded(data: TensorData, shape: readonly number[], dtype: DType, device: Device): Tensor {
  return empty(shape, { dtype, device }).copy_(pinned(shape, dtype).writeFrom(data), { nonBlocking: true });
}

/** Numbers from -(2 ** bits) to below 2 ** bits fit the type; for uint8, those from 0 to 255. */
const INTEGER_BITS: Partial<Record<DType, number>> = { int64: 63, int32: 31, int16: 15, int8: 7, uint8: 8 };

/** Throws for values that do not fit an integer type: libtorch would store whatever the machine makes of them. */
function expectRange(values: TensorData, dtype: DType): void {
  const bits = INTEGER_BITS[dtype];
  if (bits === undefined) return;
  const high = 2 ** bits;
  const low = dtype === "uint8" ? 0 : -high;
  for (const value of values) {
    if (value >= low && value < high) continue;
    throw new RerollError(
      "INVALID_ARGUMENT",
      `${value} does not fit ${dtype}, which holds integers from ${low} to below ${high}. Use another dtype.`,
    );
  }
}

function flatten(values: NestedNumbers, shape: readonly number[], into: number[], depth = 0): number[] {
  if (typeof values === "number" && depth === shape.length) into.push(values);
  else if (Array.isArray(values) && values.length === shape[depth]) {
    for (const value of values) flatten(value, shape, into, depth + 1);
  } else {
    const got = Array.isArray(values) ? `a list of ${values.length}` : `${values}`;
    throw new RerollError(
      "SHAPE_MISMATCH",
      `nested numbers must be equally long at every level: got ${got} at depth ${depth} where the first entries ` +
        `make shape [${shape.join(", ")}].`,
    );
  }
  return into;
}

function isTypedArray(values: NestedNumbers | TensorData): values is TensorData {
  return ArrayBuffer.isView(values);
}

function isShape(value: readonly number[] | TensorOptions | undefined): value is readonly number[] {
  return Array.isArray(value);
}

const ops = {
  zeros: op("aten::zeros"),
  ones: op("aten::ones"),
  empty: op("aten::empty.memory_format"),
  full: op("aten::full"),
  zerosLike: op("aten::zeros_like"),
  onesLike: op("aten::ones_like"),
  emptyLike: op("aten::empty_like"),
  arange: op("aten::arange.start"),
  rand: op("aten::rand.generator"),
  randn: op("aten::randn.generator"),
  randint: op("aten::randint.low_generator"),
  multinomial: op("aten::multinomial"),
  cat: op("aten::cat"),
  stack: op("aten::stack"),
} as const;
