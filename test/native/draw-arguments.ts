/**
 * Random arguments for an operator, by its schema: mostly of the right kind with awkward values, sometimes plainly wrong.
 *
 * Everything is drawn from one seeded stream, so that a call can be made again by its number. Tensors stay small (at most
 * a few thousand values); numbers do not, so an operator may be asked for an absurd amount of memory.
 */
import { full, rand, randint, randn, zeros } from "../../src/torch/create.ts";
import type { DType } from "../../src/torch/dtype.ts";
import { dynamicOp } from "../../src/torch/operator.ts";
import { Generator } from "../../src/torch/random.ts";
import type { Tensor } from "../../src/torch/tensor.ts";
import type { Schema, SchemaParameter } from "./parse-schema.ts";

/** A stream of numbers in [0, 1). */
export type Random = () => number;

/** Mulberry32: small, fast, and the same everywhere. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The arguments of one call, in order. Trailing ones with a default may be missing. */
export function drawArguments(schema: Schema, random: Random): unknown[] {
  const draw = new Draw(random);
  return schema.parameters.map((parameter) => draw.argument(parameter));
}

const dtypes = [
  "float32",
  "float64",
  "int64",
  "int32",
  "uint8",
  "int8",
  "int16",
  "bool",
  "bfloat16",
  "float16",
  "complex64",
] as const satisfies readonly DType[];
const sizes = [0, 1, 1, 2, 2, 3, 3, 4, 5, 8];
const smallIntegers = [-1, 0, 0, 1, 1, 2, 2, 3, 4, 5, -2, -3, 7, 8, 16];
const hugeIntegers = [
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31),
  2 ** 32,
  2 ** 53,
  -(2 ** 53),
  2n ** 63n - 1n,
  -(2n ** 63n),
  2n ** 62n,
  100,
  1000,
  1e6,
  1e9,
];
const floats = [
  0,
  1,
  -1,
  0.5,
  0.1,
  2,
  1e-8,
  1e-300,
  1e308,
  -1e308,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  3.7,
  100,
];
const strings = [
  "mean",
  "sum",
  "none",
  "max",
  "amin",
  "amax",
  "prod",
  "reflect",
  "linear",
  "nearest",
  "ij",
  "xy",
  "floor",
  "trunc",
  "tanh",
  "fro",
  "nuc",
  "ortho",
  "backward",
  "reduced",
  "L",
  "U",
  "i,i->i",
  "ij,jk->ik",
  "...",
  "same",
  "valid",
  "gelsd",
  "",
  "x",
  "\u0000",
  "cpu",
  "eigh",
];
const devices = ["cpu", "cpu", "cpu", "meta", "cuda", "cuda:7", "cpu:1", "xla", "lazy", "mkldnn", "", "cpux", "-1"];
const wrongKinds = [
  undefined,
  null,
  Number.NaN,
  -0,
  1.5,
  Number.POSITIVE_INFINITY,
  "text",
  true,
  {},
  [],
  [[]],
  [null],
  [undefined],
  ["x"],
  [1.5],
  () => 1,
  Symbol("s"),
  2n ** 100n,
  new Float32Array(2),
  new Date(0),
  2 ** 45 + 0.5,
];

/** Parameters that hold positions, classes or masks. */
const indexNames = /ind(ex|ices)|target|offsets|mask|condition|lengths|repeats|batch_sizes|pivots|labels/i;

class Draw {
  readonly #random: Random;
  /** What most tensors of the call have in common, so that shape checks pass and kernels run. */
  readonly #shape: readonly number[];
  readonly #dtype: DType;
  /** Half of the calls make sense but for their numbers: they get past the checks of most operators. */
  readonly #isCoherent: boolean;
  /** Some calls are about -1 and the integer that has no positive counterpart: dividing it by -1 traps the processor. */
  readonly #isAtLimit: boolean;

  constructor(random: Random) {
    this.#random = random;
    this.#isCoherent = this.#chance(0.5);
    this.#isAtLimit = this.#isCoherent && this.#chance(0.05);
    this.#shape = this.#chance(0.4) ? square(this.#pick([1, 2, 3, 4]), this.#pick([2, 2, 3, 4])) : this.#anyShape();
    this.#dtype = this.#chance(0.6) ? "float32" : this.#pick(dtypes);
    if (this.#isAtLimit) this.#dtype = this.#pick(["int64", "int32"]);
  }

  argument({ name, type, isOptional, hasDefault }: SchemaParameter): unknown {
    if (!this.#isCoherent && this.#chance(0.02)) return this.#chance(0.3) ? disposed() : this.#pick(wrongKinds);
    if (hasDefault && this.#chance(0.4)) return undefined;
    if (isOptional && this.#chance(0.3)) return null;
    if (type === "Tensor" && indexNames.test(name) && this.#chance(0.75)) return this.#indices();
    return this.#value(type);
  }

  #value(type: string): unknown {
    const list = /^(.*)\[(\d*)\]$/.exec(type);
    if (list !== null) return this.#list(list[1] ?? "", list[2] === "" ? null : Number(list[2]));
    switch (type) {
      case "Tensor":
        return this.#tensor();
      case "int":
      case "SymInt":
        return this.#integer();
      case "float":
        return this.#pick(floats);
      case "bool":
        return this.#chance(0.5);
      case "Scalar":
        if (this.#isAtLimit) return -1;
        return this.#pick([this.#integer(), this.#pick(floats), this.#pick(floats), this.#chance(0.5)]);
      case "str":
        return this.#pick(strings);
      case "ScalarType":
        return this.#chance(0.05) ? "float8" : this.#pick(dtypes);
      case "Layout":
        return this.#pick(["strided", "strided", "sparse", "sparse_csr", "x"]);
      case "MemoryFormat":
        return this.#pick(["contiguous", "preserve", "channels_last", "x"]);
      case "Device":
        return this.#pick(devices);
      case "Generator":
        return new Generator(1);
      default:
        return this.#pick(wrongKinds);
    }
  }

  #list(element: string, fixedLength: number | null): unknown {
    if (fixedLength !== null && this.#chance(0.2)) return this.#value(element);
    const isFitting = fixedLength !== null && this.#chance(0.7);
    const length = isFitting ? fixedLength : this.#pick([0, 1, 1, 2, 2, 3, 4, 5, this.#shape.length]);
    const isAllSmall = this.#chance(0.85);
    const isOptional = element.endsWith("?");
    const elementType = isOptional ? element.slice(0, -1) : element;
    return Array.from({ length }, () => {
      if (isOptional && this.#chance(0.3)) return null;
      const isInteger = elementType === "int" || elementType === "SymInt";
      return isInteger && isAllSmall ? this.#pick(smallIntegers) : this.#value(elementType);
    });
  }

  #integer(): number | bigint {
    return this.#chance(0.88) ? this.#pick(smallIntegers) : this.#pick(hugeIntegers);
  }

  #tensor(): Tensor {
    const isRelated = this.#isCoherent || this.#chance(0.7);
    const dtype = isRelated ? this.#dtype : this.#pick(dtypes);
    const tensor = this.#arranged(this.#filled(isRelated ? this.#relatedShape() : this.#anyShape(), dtype));
    const canHaveGradient = tensor.dtype.startsWith("float") || tensor.dtype.startsWith("bfloat");
    if (canHaveGradient && this.#chance(0.2)) tensor.requiresGrad = true;
    return !this.#isCoherent && this.#chance(0.06) ? this.#special(tensor) : tensor;
  }

  /** Small integers or a mask, as operators take them to choose values. */
  #indices(): Tensor {
    const shape = this.#chance(0.5) ? this.#relatedShape() : this.#anyShape();
    return this.#chance(0.7) ? randint(0, this.#pick([1, 2, 2, 4]), shape) : randint(0, 2, shape).to("bool");
  }

  #filled(shape: readonly number[], dtype: DType): Tensor {
    if (this.#isAtLimit && dtype === "int64") return full(shape, this.#pick([-1, -(2n ** 63n)]), { dtype });
    if (this.#isAtLimit && dtype === "int32") return full(shape, this.#pick([-1, -(2 ** 31)]), { dtype });
    if (this.#chance(0.05))
      return full(shape, this.#pick([0, 1, -1, Number.NaN, 1e30]), { dtype: isInteger(dtype) ? "float32" : dtype });
    if (this.#chance(0.03) && dtype === "int64") return full(shape, this.#pick(hugeIntegers), { dtype });
    if (isInteger(dtype)) return randint(this.#chance(0.3) ? -3 : 0, this.#pick([2, 4, 9]), shape).to(dtype);
    return (this.#chance(0.3) ? rand(shape) : randn(shape)).to(dtype);
  }

  /** The same values with other strides. */
  #arranged(tensor: Tensor): Tensor {
    const rank = tensor.shape.length;
    if (rank >= 2 && this.#chance(0.12))
      return tensor
        .transpose(0, rank - 1)
        .contiguous()
        .transpose(0, rank - 1);
    if (rank >= 1 && this.#chance(0.05)) return tensor.slice(0, 0, undefined, 2);
    if (this.#chance(0.04)) return tensor.unsqueeze(0).expand(this.#pick([1, 2, 3]), ...tensor.shape);
    return tensor;
  }

  /** Tensors that are no plain memory. */
  #special(tensor: Tensor): Tensor {
    const kind = this.#pick(["sparse", "mkldnn", "quantized", "zero", "meta", "conjugate", "csr", "disposed"] as const);
    try {
      if (kind === "sparse") return run("aten::to_sparse", tensor.detach());
      if (kind === "csr") return run("aten::to_sparse_csr", tensor.detach());
      if (kind === "mkldnn") return run("aten::to_mkldnn", tensor.detach());
      if (kind === "zero") return run("aten::_efficientzerotensor", tensor.shape, tensor.dtype, null, "cpu");
      if (kind === "meta") return zeros(tensor.shape, { dtype: tensor.dtype, device: "meta" });
      if (kind === "conjugate") return run("aten::_conj", tensor.detach().to("complex64"));
      if (kind === "quantized")
        return run("aten::quantize_per_tensor_dynamic", tensor.detach().to("float32"), "quint8", false);
    } catch {
      return tensor;
    }
    return disposed();
  }

  /** The shape of the call, mostly; else with fewer dimensions, or one more. */
  #relatedShape(): readonly number[] {
    if (this.#chance(0.7)) return this.#shape;
    if (this.#chance(0.3)) return [this.#pick([1, 2]), ...this.#shape].slice(0, 5);
    return this.#shape.slice(this.#pick([1, 1, 2, 3]));
  }

  #anyShape(): number[] {
    const shape = Array.from({ length: Math.floor(this.#random() * 6) }, () => this.#pick(sizes));
    return shape.reduce((product, size) => product * size, 1) > 4096 ? shape.slice(0, 3) : shape;
  }

  #chance(probability: number): boolean {
    return this.#random() < probability;
  }

  #pick<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.#random() * choices.length)] as T;
  }
}

function square(rank: number, size: number): number[] {
  return Array.from({ length: rank }, () => size);
}

function isInteger(dtype: DType): boolean {
  return dtype.includes("int") || dtype === "bool";
}

function disposed(): Tensor {
  const tensor = zeros([1]);
  tensor.dispose();
  return tensor;
}

function run(name: string, ...args: unknown[]): Tensor {
  return dynamicOp(name)(...args) as Tensor;
}
