import { inspect } from "node:util";
import { expect, test } from "vitest";
import { arange, ones, tensor, zeros } from "./create.ts";
import { dynamicOp, op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

const x = tensor([-2, 0, 3]);
/** Rows 1 2 3 and 4 5 6. */
const rows = tensor([
  [1, 2, 3],
  [4, 5, 6],
]);
const two = tensor([2, 2, 2]);
const indices = (...values: number[]) => tensor(values, { dtype: "int64" });
const nan = Number.NaN;

/** Values to five digits, as float32 carries seven. */
function rounded(values: readonly number[]): number[] {
  return values.map((value) => (Number.isFinite(value) ? Number(value.toFixed(5)) : value));
}

const methods: readonly [sentence: string, made: () => Tensor, values: number[]][] = [
  ["x plus 2", () => x.add(2), [0, 2, 5]],
  ["x plus 10 times 2", () => x.add(two, 10), [18, 20, 23]],
  ["x plus 3 times 2", () => x.add(2, 3), [4, 6, 9]],
  ["x minus 2", () => x.sub(two), [-4, -2, 1]],
  ["x minus 3 times 2", () => x.sub(2, 3), [-8, -6, -3]],
  ["x times 2", () => x.mul(two), [-4, 0, 6]],
  ["x times a half", () => x.mul(0.5), [-1, 0, 1.5]],
  ["x over 2", () => x.div(two), [-1, 0, 1.5]],
  ["x over 4", () => x.div(4), [-0.5, 0, 0.75]],
  ["x over 2, floored", () => tensor([-3, 3]).floorDivide(2), [-2, 1]],
  ["x over tensor 2, floored", () => tensor([-3, 3]).floorDivide(tensor([2, 2])), [-2, 1]],
  ["the remainder has the sign of the divisor", () => tensor([-3, 3]).remainder(2), [1, 1]],
  ["the remainder by a tensor", () => tensor([-3, 3]).remainder(tensor([-2, -2])), [-1, -1]],
  ["x squared by pow", () => x.pow(2), [4, 0, 9]],
  ["x to the power of a tensor", () => x.pow(tensor([1, 2, 3])), [-2, 0, 27]],
  ["minus x", () => x.neg(), [2, 0, -3]],
  ["the size of x", () => x.abs(), [2, 0, 3]],
  ["the sign of x", () => x.sign(), [-1, 0, 1]],
  ["e to the x", () => tensor([0, 1]).exp(), [1, Math.E]],
  ["the logarithm", () => tensor([1, Math.E]).log(), [0, 1]],
  ["log1p of e - 1", () => tensor([Math.E - 1]).log1p(), [1]],
  ["expm1 of 1", () => tensor([1]).expm1(), [1.71828]],
  ["the root", () => tensor([4, 9]).sqrt(), [2, 3]],
  ["one over the root", () => tensor([4, 16]).rsqrt(), [0.5, 0.25]],
  ["x squared", () => x.square(), [4, 0, 9]],
  ["one over", () => tensor([2, 4]).reciprocal(), [0.5, 0.25]],
  ["the sine of half pi", () => tensor([Math.PI / 2]).sin(), [1]],
  ["the cosine of 0", () => tensor([0]).cos(), [1]],
  ["tanh of 1", () => tensor([0, 1]).tanh(), [0, 0.76159]],
  ["sigmoid of 0 and of ln 3", () => tensor([0, Math.log(3)]).sigmoid(), [0.5, 0.75]],
  ["the logarithm of sigmoid of 0", () => tensor([0]).logSigmoid(), [-Math.LN2]],
  ["softplus of 0", () => tensor([0]).softplus(), [Math.LN2]],
  ["relu of x", () => x.relu(), [0, 0, 3]],
  ["elu of x", () => x.elu(), [-0.86466, 0, 3]],
  ["gelu of 1, exact", () => tensor([1]).gelu(), [0.84134]],
  ["silu of 1", () => tensor([1]).silu(), [0.73106]],
  ["x floored", () => tensor([-1.5, 1.5]).floor(), [-2, 1]],
  ["x rounded, ties to even", () => tensor([0.5, 1.5, 2.5]).round(), [0, 2, 2]],
  ["x between -1 and 1", () => x.clamp(-1, 1), [-1, 0, 1]],
  ["x at most 1", () => x.clamp(null, 1), [-2, 0, 1]],
  ["the smaller", () => x.minimum(two), [-2, 0, 2]],
  ["the larger", () => x.maximum(two), [2, 2, 3]],
  ["a quarter of the way to 2", () => x.lerp(two, 0.25), [-1, 0.5, 2.75]],
  ["equal to 0", () => x.eq(0), [0, 1, 0]],
  ["equal to a tensor", () => x.eq(tensor([-2, 1, 3])), [1, 0, 1]],
  ["unlike 0", () => x.ne(0), [1, 0, 1]],
  ["unlike a tensor", () => x.ne(two), [1, 1, 1]],
  ["less than 0", () => x.lt(0), [1, 0, 0]],
  ["less than a tensor", () => x.lt(two), [1, 1, 0]],
  ["at most 0", () => x.le(0), [1, 1, 0]],
  ["at most a tensor", () => x.le(two), [1, 1, 0]],
  ["more than 0", () => x.gt(0), [0, 0, 1]],
  ["more than a tensor", () => x.gt(two), [0, 0, 1]],
  ["at least 0", () => x.ge(0), [0, 1, 1]],
  ["at least a tensor", () => x.ge(two), [0, 0, 1]],
  ["both", () => x.gt(-1).logicalAnd(x.lt(1)), [0, 1, 0]],
  ["either", () => x.lt(0).logicalOr(x.gt(0)), [1, 0, 1]],
  ["not", () => x.gt(0).logicalNot(), [1, 1, 0]],
  ["finite", () => tensor([1, nan, Number.POSITIVE_INFINITY]).isFinite(), [1, 0, 0]],
  ["not a number", () => tensor([1, nan]).isNaN(), [0, 1]],
  ["9 under the mask", () => x.maskedFill(x.lt(0), 9), [9, 0, 3]],
  ["x where positive, else 7", () => x.where(x.gt(0), 7), [7, 7, 3]],
  ["x where positive, else 2", () => x.where(x.gt(0), two), [2, 2, 3]],
  ["5 for what is no number", () => tensor([1, nan]).nanToNum(5), [1, 5]],
  ["the sum", () => rows.sum(), [21]],
  ["the sum of each row", () => rows.sum(1), [6, 15]],
  ["the sum over both", () => rows.sum([0, 1]), [21]],
  ["the mean", () => rows.mean(), [3.5]],
  ["the mean of each column", () => rows.mean(0), [2.5, 3.5, 4.5]],
  ["the deviation of 1, 3 with n - 1", () => tensor([1, 3]).std(), [Math.SQRT2]],
  ["the deviation of 1, 3 with n", () => tensor([1, 3]).std(0, { correction: 0 }), [1]],
  ["the variance of 1, 3 with n - 1", () => tensor([1, 3]).variance(), [2]],
  ["the variance of each row with n", () => rows.variance(1, { correction: 0 }), [0.66667, 0.66667]],
  ["the largest", () => rows.max(), [6]],
  ["the smallest", () => rows.min(), [1]],
  ["the largest of each column", () => rows.amax(0), [4, 5, 6]],
  ["the smallest over both", () => rows.amin([0, 1]), [1]],
  ["where the largest is", () => rows.argmax(1), [2, 2]],
  ["whether any is 0", () => x.eq(0).any(), [1]],
  ["whether all are 0", () => x.eq(0).all(), [0]],
  ["the length of 3, 4", () => tensor([3, 4]).norm(), [5]],
  ["sums so far", () => rows.cumsum(1), [1, 3, 6, 4, 9, 15]],
  ["log of e^0 + e^0", () => tensor([0, 0]).logSumExp(0), [Math.LN2]],
  ["softmax of 0, ln 3", () => tensor([0, Math.log(3)]).softmax(0), [0.25, 0.75]],
  ["log softmax of 0, 0", () => tensor([0, 0]).logSoftmax(0), [-Math.LN2, -Math.LN2]],
  ["the two largest", () => x.topk(2)[0], [3, 0]],
  ["where the two largest are", () => x.topk(2)[1], [2, 1]],
  ["from large to small", () => x.sort(-1, true)[0], [3, 0, -2]],
  ["three rows of two", () => rows.view(3, 2).select(0, 1), [3, 4]],
  ["reshaped from a transpose", () => rows.t().reshape(6), [1, 4, 2, 5, 3, 6]],
  ["flat", () => rows.flatten(), [1, 2, 3, 4, 5, 6]],
  ["transposed", () => rows.transpose(0, 1), [1, 4, 2, 5, 3, 6]],
  ["permuted", () => rows.permute(1, 0), [1, 4, 2, 5, 3, 6]],
  ["spread over two rows", () => tensor([1, 2]).unsqueeze(0).expand(2, 2), [1, 2, 1, 2]],
  ["each twice", () => tensor([1, 2]).repeatInterleave(2, 0), [1, 1, 2, 2]],
  ["from 1, two long", () => rows.narrow(1, 1, 2), [2, 3, 5, 6]],
  ["every second column", () => rows.slice(1, 0, undefined, 2), [1, 3, 4, 6]],
  ["up to column 2", () => rows.slice(1, 0, 2), [1, 2, 4, 5]],
  ["the last row", () => rows.select(0, -1), [4, 5, 6]],
  ["the second of three columns", () => rows.split(1, 1)[1]!, [2, 5]],
  ["the second of unequal parts", () => rows.splitSizes([1, 2], 1)[1]!, [2, 3, 5, 6]],
  ["the second of two chunks", () => rows.chunk(2)[1]!, [4, 5, 6]],
  ["backwards", () => x.flip(0), [3, 0, -2]],
  ["the lower triangle", () => ones([2, 2]).tril(), [1, 0, 1, 1]],
  ["below the diagonal", () => ones([2, 2]).tril(-1), [0, 0, 1, 0]],
  ["gathered", () => x.gather(0, indices(2, 0)), [3, -2]],
  ["scattered", () => x.scatter(0, indices(0), tensor([9])), [9, 0, 3]],
  ["a value scattered", () => x.scatter(0, indices(0, 1), 9), [9, 9, 3]],
  ["columns chosen", () => rows.indexSelect(1, indices(2, 0)), [3, 1, 6, 4]],
  ["indexed by row and column", () => rows.index(indices(0, 1), indices(2, 0)), [3, 4]],
  ["indexed by column alone", () => rows.index(null, indices(1)), [2, 5]],
  ["added at an index, twice at one", () => zeros([2]).indexAdd(0, indices(1, 1), tensor([3, 4])), [0, 7]],
  ["selected by mask", () => x.maskedSelect(x.ne(0)), [-2, 3]],
  ["positions of what is not 0", () => x.nonzero(), [0, 2]],
  ["a matrix times a vector", () => rows.matmul(tensor([1, 0, 1])), [4, 10]],
  ["a matrix times a matrix", () => rows.mm(tensor([[1], [1], [1]])), [6, 15]],
  ["matrices times matrices", () => rows.unsqueeze(0).bmm(ones([1, 3, 1])), [6, 15]],
  ["squeezed", () => tensor([[1, 2]]).squeeze(0), [1, 2]],
];

test.each(methods)("%s", (_, made, values) => {
  expect(rounded(made().toArray())).toEqual(rounded(values));
});

test("reductions keep the dimension when they are told to", () => {
  expect(rows.sum(1, true).shape).toEqual([2, 1]);
  expect(rows.mean(0, true).shape).toEqual([1, 3]);
  expect(rows.amax(1, true).toArray()).toEqual([3, 6]);
  expect(rows.argmax(0, true).shape).toEqual([1, 3]);
  expect(rows.std(1, { keepDim: true }).shape).toEqual([2, 1]);
});

test("methods with an underscore change the tensor and return it", () => {
  const y = tensor([1, 2]);
  const other = tensor([10, 20]);
  const steps: readonly [() => Tensor, number[]][] = [
    [() => y.add_(other, 2), [21, 42]],
    [() => y.add_(1), [22, 43]],
    [() => y.sub_(other), [12, 23]],
    [() => y.sub_(2), [10, 21]],
    [() => y.mul_(other), [100, 420]],
    [() => y.mul_(0.5), [50, 210]],
    [() => y.div_(other), [5, 10.5]],
    [() => y.div_(5), [1, 2.1]],
    [() => y.lerp_(other, 0.5), [5.5, 11.05]],
    [() => y.clamp_(6, null), [6, 11.05]],
    [() => y.copy_(other), [10, 20]],
    [() => y.indexCopy_(0, indices(1), tensor([7])), [10, 7]],
    [() => y.indexAdd_(0, indices(0), tensor([5])), [15, 7]],
    [() => y.fill_(3), [3, 3]],
    [() => y.zero_(), [0, 0]],
    [() => y.writeFrom(new Float32Array([8, 9])), [8, 9]],
  ];
  for (const [step, values] of steps) {
    expect(step()).toBe(y);
    expect(rounded(y.toArray())).toEqual(values);
  }
});

test("a tensor tells its shape, strides, dtype, device and size", () => {
  expect([rows.shape, rows.strides, rows.dtype, rows.device, rows.numel]).toEqual([
    [2, 3],
    [3, 1],
    "float32",
    "cpu",
    6,
  ]);
  expect([rows.size(0), rows.size(-1)]).toEqual([2, 3]);
  expect([rows.isContiguous, rows.t().isContiguous, rows.t().contiguous().isContiguous]).toEqual([true, false, true]);
  expect(rows.t().storageAddress).toBe(rows.storageAddress);
  expect(rows.clone().storageAddress).not.toBe(rows.storageAddress);
});

test("a tensor prints as its dtype and shape", () => {
  expect(String(rows)).toBe("Tensor(float32[2, 3])");
  expect(inspect({ rows })).toBe("{ rows: Tensor(float32[2, 3]) }");
  expect(String(tensor(1))).toBe("Tensor(float32[])");
});

test("item reads one value of any dtype, and refuses more", () => {
  expect(tensor([2.5]).item()).toBe(2.5);
  expect(tensor([[7]], { dtype: "int64" }).item()).toBe(7);
  expect(tensor([1], { dtype: "bool" }).item()).toBe(1);
  expect(tensor([1.5], { dtype: "bfloat16" }).item()).toBe(1.5);
  expect(() => rows.item()).toThrow(/item\(\) needs a tensor with one element, got float32\[2, 3\]/);
  expect(() => zeros([0]).item()).toThrow(/got float32\[0\]/);
  expect(() => tensor([1]).to("complex64").item()).toThrow(/use view_as_real/);
});

test("values are read in order, however they lie in memory", () => {
  expect(rows.t().toTypedArray()).toEqual(new Float32Array([1, 4, 2, 5, 3, 6]));
  expect(tensor([1]).expand(3).toArray()).toEqual([1, 1, 1]);
  expect(arange(0, 6).slice(0, 1, 6, 2).toTypedArray()).toEqual(new BigInt64Array([1n, 3n, 5n]));
  expect(indices(1, 2).toFloat32Array()).toEqual(new Float32Array([1, 2]));
  expect(tensor([1.5], { dtype: "float16" }).toArray()).toEqual([1.5]);
});

test("values that are marks on other memory are read as what they are", () => {
  const z = op("aten::complex")(tensor([1]), tensor([2]));
  expect(op("aten::_conj")(z).toTypedArray()).toEqual(new Float32Array([1, -2]));
  expect(op("aten::imag")(op("aten::_conj")(z)).toArray()).toEqual([-2]);
  const nothing = dynamicOp("aten::_efficientzerotensor")([2], "float32", null, "cpu") as Tensor;
  expect(nothing.toArray()).toEqual([0, 0]);
  expect(() => nothing.writeFrom(new Float32Array(2))).toThrow(/only a contiguous CPU tensor can be written/);
});

test("what has no plain memory cannot be read, and says what it is", () => {
  expect(() => op("aten::to_sparse")(rows).toArray()).toThrow(/float32\[2, 3\] Sparse/);
  expect(() => zeros([1], { device: "meta" }).toArray()).toThrow(/meta/);
});

test("a tensor that requires gradients is read and written without them", () => {
  const y = tensor([1, 2]);
  y.requiresGrad = true;
  expect(y.mul(2).toArray()).toEqual([2, 4]);
  expect(y.writeFrom(new Float32Array([3, 4])).toArray()).toEqual([3, 4]);
  expect(() => y.add_(1)).toThrow(/leaf Variable that requires grad is being used in an in-place operation/);
});

test("writing needs an array of the same type and size over a tensor in order", () => {
  const y = zeros([2]);
  expect(() => y.writeFrom(new Float32Array(3))).toThrow(/the typed array has 12 bytes, the tensor float32\[2\] has 8/);
  expect(() => y.writeFrom(new Int32Array(2))).toThrow(/a Int32Array does not hold values of float32/);
  expect(() => y.writeFrom(new Float64Array(1))).toThrow(/a Float64Array does not hold values of float32/);
  expect(() => rows.t().writeFrom(new Float32Array(6))).toThrow(/only a contiguous CPU tensor can be written/);
  expect(() => y.writeFrom([1, 2] as unknown as Float32Array)).toThrow(
    /argument 'source' must be a typed array, got \[1, 2\]/,
  );
});

test("to gives the same tensor where nothing changes, else a copy", () => {
  expect(rows.to("float32")).toBe(rows);
  expect(rows.to("int64").toTypedArray()).toEqual(new BigInt64Array([1n, 2n, 3n, 4n, 5n, 6n]));
  expect(rows.toDevice("cpu").storageAddress).toBe(rows.storageAddress);
  expect(rows.toDevice("meta").device).toBe("meta");
  expect(tensor([1]).viewAs("int32").item()).toBe(0x3f800000);
});

test("a tensor that begins in the middle of 16 bytes is not aligned to them", () => {
  const whole = zeros([16]);
  expect([0, 1, 4].map((start) => whole.narrow(0, start, 4).isAligned(16))).toEqual([true, false, true]);
});
