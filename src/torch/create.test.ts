import { expect, test } from "vitest";
import {
  arange,
  cat,
  empty,
  emptyLike,
  full,
  multinomial,
  ones,
  onesLike,
  rand,
  randint,
  randn,
  stack,
  tensor,
  zeros,
  zerosLike,
} from "./create.ts";
import type { DType, TensorData } from "./dtype.ts";
import { Generator } from "./random.ts";

/** The bits that float32 values become in a 16-bit type. */
function bits(values: readonly number[], dtype: "bfloat16" | "float16"): string[] {
  const stored = tensor(new Float32Array(values), [values.length]).to(dtype).toTypedArray();
  return Array.from(stored as Uint16Array, (value) => `0x${value.toString(16).padStart(4, "0")}`);
}

function fromBits(values: readonly number[], dtype: "bfloat16" | "float16"): number[] {
  return tensor(new Uint16Array(values), [values.length], { dtype }).toArray();
}

const roundTrips: readonly [DType, TensorData][] = [
  ["float32", new Float32Array([1.5, -0, Number.NaN, Number.POSITIVE_INFINITY, 1e-45, 3.4e38])],
  ["float64", new Float64Array([Math.PI, -0, Number.NaN, Number.NEGATIVE_INFINITY, 5e-324])],
  ["int64", new BigInt64Array([2n ** 63n - 1n, -(2n ** 63n), 0n])],
  ["int32", new Int32Array([2 ** 31 - 1, -(2 ** 31), 0])],
  ["int16", new Int16Array([32767, -32768])],
  ["int8", new Int8Array([127, -128])],
  ["uint8", new Uint8Array([255, 0, 7])],
];

test.each(roundTrips)("%s values come back bit for bit", (dtype, data) => {
  const made = tensor(data, [data.length]);
  expect(made.dtype).toBe(dtype);
  expect(made.toTypedArray()).toEqual(data);
});

test("16-bit types take and give their bits as Uint16Array", () => {
  const data = new Uint16Array([0x3f80, 0x7fc0, 0x8000, 0xff80, 0x0001]);
  for (const dtype of ["bfloat16", "float16"] as const) {
    expect(tensor(data, [5], { dtype }).toTypedArray()).toEqual(data);
  }
  expect(tensor(data, [5], { dtype: "int16" }).toTypedArray()).toEqual(
    new Int16Array([0x3f80, 0x7fc0, -32768, -128, 1]),
  );
});

test("bool takes bytes, and any byte but 0 is true", () => {
  const flags = tensor(new Uint8Array([0, 1, 2, 255]), [4], { dtype: "bool" });
  expect(flags.toTypedArray()).toEqual(new Uint8Array([0, 1, 1, 1]));
  flags.writeFrom(new Uint8Array([7, 0, 0, 0]));
  expect(flags.to("int32").sum().item()).toBe(1);
});

test("complex numbers come as pairs", () => {
  const made = tensor([1, 2]).to("complex64");
  expect(made.toTypedArray()).toEqual(new Float32Array([1, 0, 2, 0]));
  expect(tensor([3]).to("complex128").toTypedArray()).toEqual(new Float64Array([3, 0]));
});

test("float32 to bfloat16 rounds to the nearest, ties to even", () => {
  // One step above 1 is 2^-7. Half a step goes down to even, one and a half goes up to even.
  expect(bits([1, 1 + 2 ** -8, 1 + 2 ** -8 + 2 ** -20, 1 + 3 * 2 ** -8, -1 - 3 * 2 ** -8], "bfloat16")).toEqual([
    "0x3f80",
    "0x3f80",
    "0x3f81",
    "0x3f82",
    "0xbf82",
  ]);
});

test("bfloat16 keeps zeros, infinities, NaN and the smallest numbers", () => {
  expect(bits([0, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY], "bfloat16")).toEqual([
    "0x0000",
    "0x8000",
    "0x7f80",
    "0xff80",
  ]);
  expect(bits([2 ** -133, 2 ** -134, 3.4e38], "bfloat16")).toEqual(["0x0001", "0x0000", "0x7f80"]);
  expect(tensor([Number.NaN], { dtype: "bfloat16" }).isNaN().item()).toBe(1);
});

test("float32 to float16 rounds to the nearest, ties to even, and overflows at 65520", () => {
  expect(bits([1 + 2 ** -11, 1 + 3 * 2 ** -11, 65504, 65519, 65520, -65520], "float16")).toEqual([
    "0x3c00",
    "0x3c02",
    "0x7bff",
    "0x7bff",
    "0x7c00",
    "0xfc00",
  ]);
});

test("float16 has subnormal numbers down to 2^-24", () => {
  expect(bits([2 ** -24, 2 ** -25, 1.5 * 2 ** -25, 2 ** -14, 1023 * 2 ** -24], "float16")).toEqual([
    "0x0001",
    "0x0000",
    "0x0001",
    "0x0400",
    "0x03ff",
  ]);
});

test("every finite 16-bit pattern comes back as itself through float32", () => {
  const patterns = Uint16Array.from({ length: 65536 }, (_, i) => i);
  for (const dtype of ["bfloat16", "float16"] as const) {
    const made = tensor(patterns, [65536], { dtype });
    const again = tensor(made.toFloat32Array(), [65536]).to(dtype);
    const nan = made.isNaN();
    const same = made.viewAs("int16").eq(again.viewAs("int16")).logicalOr(nan);
    expect(same.all().item()).toBe(1);
    // bfloat16 has 2 * 127 patterns for NaN, float16 2 * 1023.
    expect(nan.to("int32").sum().item()).toBe(dtype === "bfloat16" ? 254 : 2046);
  }
});

test("known bits of 16-bit types: 0x4049 is 3.140625, 0x4248 is 3.140625", () => {
  expect(fromBits([0x4049, 0x0080, 0x7f80], "bfloat16")).toEqual([3.140625, 2 ** -126, Number.POSITIVE_INFINITY]);
  expect(fromBits([0x4248, 0x0001, 0xfbff], "float16")).toEqual([3.140625, 2 ** -24, -65504]);
});

test("an array over shared memory is copied like any other", () => {
  const shared = new Float32Array(new SharedArrayBuffer(12));
  shared.set([1, 2, 3]);
  const made = tensor(shared, [3]);
  shared.fill(0);
  expect(made.toArray()).toEqual([1, 2, 3]);
  made.writeFrom(shared);
  expect(made.toArray()).toEqual([0, 0, 0]);
});

test("a view into a larger buffer starts at its own first value", () => {
  const whole = new Float32Array([0, 1, 2, 3, 4, 5]);
  expect(tensor(whole.subarray(2, 5), [3]).toArray()).toEqual([2, 3, 4]);
  const odd = new Int8Array(new Int8Array([9, 1, 2, 3]).buffer, 1, 2);
  expect(tensor(odd, [2]).toArray()).toEqual([1, 2]);
});

test("a detached array has no values", () => {
  const gone = new Float32Array(4);
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  expect(() => tensor(gone, [4])).toThrow(/shape \[4\] has 4 values of float32, the data has 0/);
  expect(tensor(gone, [0]).shape).toEqual([0]);
});

test("data and shape must hold equally many values", () => {
  expect(() => tensor(new Float32Array(6), [2, 2])).toThrow(/shape \[2, 2\] has 4 values of float32, the data has 6/);
  expect(() => tensor(new Float32Array(1), [-1])).toThrow(/shape \[-1\] is not possible/);
  expect(() => tensor(new Float32Array(1), [2 ** 40, 2 ** 40])).toThrow(/is not possible/);
  expect(() => tensor(new Float32Array(1), [1.5])).toThrow(/argument 'shape' must be an array of integers/);
  expect(() => tensor(new Float32Array(1), ["x" as unknown as number])).toThrow(/must be an array of numbers/);
});

test("data is converted to the dtype that is asked for: 1.9 becomes 1 as int32", () => {
  expect(tensor(new Float32Array([1.9, -1.9]), [2], { dtype: "int32" }).toArray()).toEqual([1, -1]);
  expect(tensor([1, 0, 3], { dtype: "bool" }).toArray()).toEqual([1, 0, 1]);
});

test("arrays that no dtype matches are refused by name", () => {
  const make = (data: unknown) => () => tensor(data as TensorData, [1]);
  expect(make(new Uint32Array(1))).toThrow(/no tensor holds the values of a Uint32Array/);
  expect(make(new BigUint64Array(1))).toThrow(/no tensor holds the values of a BigUint64Array/);
  expect(make(new DataView(new ArrayBuffer(4)))).toThrow(/no tensor holds the values of a DataView/);
  expect(make(new Uint16Array(1))).toThrow(/a Uint16Array has no element type of its own/);
  expect(() => tensor(new Uint16Array(4), [2], { dtype: "float32" })).toThrow(/Name the type its bits have/);
});

test("nested numbers give the shape; a single number has none", () => {
  const made = tensor([
    [1, 2, 3],
    [4, 5, 6],
  ]);
  expect([made.shape, made.dtype, made.toArray()]).toEqual([[2, 3], "float32", [1, 2, 3, 4, 5, 6]]);
  expect([tensor(7).shape, tensor(7).item()]).toEqual([[], 7]);
  expect(tensor([]).shape).toEqual([0]);
  expect(tensor([[], []]).shape).toEqual([2, 0]);
});

test("nested numbers of unequal length are refused, also where the count fits", () => {
  expect(() => tensor([[1, 2], [3]])).toThrow(/got a list of 1 at depth 1 where the first entries make shape \[2, 2\]/);
  expect(() => tensor([[1, 2], [3, 4, 5], [6]])).toThrow(/nested numbers must be equally long/);
  expect(() => tensor([[1], 2])).toThrow(/got 2 at depth 1/);
  expect(() => tensor([1, [2]])).toThrow(/got a list of 1 at depth 1/);
});

test("filled tensors", () => {
  expect(zeros([2]).toArray()).toEqual([0, 0]);
  expect(ones([2], { dtype: "int64" }).toTypedArray()).toEqual(new BigInt64Array([1n, 1n]));
  expect(full([2], 2.5).toArray()).toEqual([2.5, 2.5]);
  expect(full([1], 3).dtype).toBe("float32");
  expect(arange(2, 5).toTypedArray()).toEqual(new BigInt64Array([2n, 3n, 4n]));
  expect(empty([3, 0]).numel).toBe(0);
});

test("tensors like another have its shape and dtype", () => {
  const like = zeros([2, 1], { dtype: "float64" });
  expect([zerosLike(like).dtype, zerosLike(like).toArray()]).toEqual(["float64", [0, 0]]);
  expect([onesLike(like).shape, onesLike(like).toArray()]).toEqual([
    [2, 1],
    [1, 1],
  ]);
  expect(emptyLike(like).shape).toEqual([2, 1]);
});

test("random numbers stay in their range and follow their generator", () => {
  const draw = () => rand([100], { generator: new Generator(5) });
  expect(draw().toArray()).toEqual(draw().toArray());
  expect(draw().min().item()).toBeGreaterThanOrEqual(0);
  expect(draw().max().item()).toBeLessThan(1);
  const integers = randint(-2, 3, [1000], { generator: new Generator(5) });
  expect([integers.dtype, integers.min().item(), integers.max().item()]).toEqual(["int64", -2, 2]);
  const normal = randn([10_000], { generator: new Generator(5) });
  expect(Math.abs(normal.mean().item())).toBeLessThan(0.05);
  expect(Math.abs(normal.std().item() - 1)).toBeLessThan(0.05);
});

test("multinomial draws what has weight, and without replacement each index once", () => {
  const weights = tensor([0, 1, 0, 1]);
  const drawn = multinomial(weights, 2, { generator: new Generator(1) }).sort()[0];
  expect(drawn.toArray()).toEqual([1, 3]);
  expect(multinomial(tensor([0, 1]), 3, { replacement: true }).toArray()).toEqual([1, 1, 1]);
  expect(() => multinomial(weights, 5)).toThrow(/cannot sample n_sample > prob_dist.size/);
});

test("cat joins along a dimension, stack along a new one", () => {
  const a = tensor([[1, 2]]);
  const b = tensor([[3, 4]]);
  expect([cat([a, b]).shape, cat([a, b]).toArray()]).toEqual([
    [2, 2],
    [1, 2, 3, 4],
  ]);
  expect(cat([a, b], 1).toArray()).toEqual([1, 2, 3, 4]);
  expect([stack([a, b], 2).shape, stack([a, b], 2).toArray()]).toEqual([
    [1, 2, 2],
    [1, 3, 2, 4],
  ]);
});

test("numbers that an integer type does not hold are refused, and its limits are taken", () => {
  const refused: [number, DType][] = [
    [1e20, "int64"],
    [2 ** 63, "int64"],
    [Number.NaN, "int64"],
    [Number.NEGATIVE_INFINITY, "int32"],
    [2 ** 31, "int32"],
    [-1, "uint8"],
    [256, "uint8"],
    [-129, "int8"],
  ];
  for (const [value, dtype] of refused) {
    expect(() => tensor([value], { dtype })).toThrow(`${value} does not fit ${dtype}, which holds integers from`);
    expect(() => tensor(Float64Array.of(value), [1], { dtype })).toThrow(`${value} does not fit ${dtype}`);
  }
  expect(tensor([-(2 ** 63), 2 ** 53], { dtype: "int64" }).toTypedArray()).toEqual(
    BigInt64Array.of(-(2n ** 63n), 2n ** 53n),
  );
  expect(tensor([-128, 127], { dtype: "int8" }).toArray()).toEqual([-128, 127]);
  expect(tensor([1e20, 0], { dtype: "bool" }).toArray()).toEqual([1, 0]);
});
