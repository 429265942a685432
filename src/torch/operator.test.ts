import { expect, test } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import { native } from "./binding.ts";
import { ones, tensor, zeros } from "./create.ts";
import { dynamicOp, hasOp, op } from "./operator.ts";
import { Generator } from "./random.ts";
import { tensorScope } from "./scope.ts";
import { Tensor } from "./tensor.ts";

/** Two rows: 1 2 3 and 4 5 6. */
function twoByThree(): Tensor {
  return tensor([
    [1, 2, 3],
    [4, 5, 6],
  ]);
}

function values(value: unknown): unknown {
  if (value instanceof Tensor) return value.toArray();
  return Array.isArray(value) ? value.map(values) : value;
}

/** What an operator gives for these arguments, with tensors as plain numbers. */
function call(name: string, ...args: unknown[]): unknown {
  return tensorScope(() => values(dynamicOp(name)(...args)));
}

function failure(run: () => unknown): RerollError {
  try {
    run();
  } catch (error) {
    if (error instanceof RerollError) return error;
    throw error;
  }
  throw new Error("expected a RerollError, and nothing was thrown");
}

test("every schema of libtorch resolves to an operator with as many arguments as it declares", () => {
  const schemas = native.listSchemas();
  expect(schemas.length).toBeGreaterThan(3000);
  const unresolved = schemas.map((schema) => schema.slice(0, schema.indexOf("("))).filter((name) => !hasOp(name));
  expect(unresolved).toEqual([]);
  expect(native.operator("aten::addmm")?.numArguments).toBe(5);
});

test("an operator that libtorch lacks is found missing, and says so when it is called", () => {
  expect(hasOp("aten::no_such_thing")).toBe(false);
  expect(failure(() => call("aten::no_such_thing")).message).toMatch(/has no operator "aten::no_such_thing"/);
  expect(failure(() => call("")).code).toBe("UNKNOWN_OPERATOR");
  expect(failure(() => call("::.")).code).toBe("UNKNOWN_OPERATOR");
});

test("a number that is whole is an integer: adding 2 keeps int64, adding 2.5 gives float32", () => {
  const counts = tensor([1, 2], { dtype: "int64" });
  expect([counts.add(2).dtype, counts.add(2).toArray()]).toEqual(["int64", [3, 4]]);
  expect([counts.add(2.5).dtype, counts.add(2.5).toArray()]).toEqual(["float32", [3.5, 4.5]]);
  expect(counts.add(true).dtype).toBe("int64");
});

test("negative zero is whole too: adding a negated offset of 0 keeps int64", () => {
  expect(tensor([1], { dtype: "int64" }).add(-0).dtype).toBe("int64");
});

test("a bigint reaches an int64 tensor bit for bit, past 2^53", () => {
  const big = 2n ** 53n + 1n;
  expect(zeros([1], { dtype: "int64" }).add(big).toTypedArray()).toEqual(new BigInt64Array([big]));
  expect(failure(() => zeros([1]).add(2n ** 64n)).message).toMatch(
    /argument 'other' must be of type Scalar, got a bigint/,
  );
});

test("an int result past 2^53 comes back as a bigint", () => {
  const huge = tensor(new BigInt64Array([2n ** 62n]), [1]);
  expect(call("aten::item", huge)).toBe(2n ** 62n);
  expect(call("aten::item", tensor([7], { dtype: "int64" }))).toBe(7);
});

test("a list of integers is a shape, a permutation, or dimensions", () => {
  expect(call("aten::permute", twoByThree(), [1, 0])).toEqual([1, 4, 2, 5, 3, 6]);
  expect(call("aten::sum.dim_IntList", twoByThree(), [0])).toEqual([5, 7, 9]);
  expect(call("aten::sum.dim_IntList", twoByThree(), [0, 1])).toEqual([21]);
});

test("one number stands for a list of fixed length: a 2 by 2 pool of 1..4 gives 4", () => {
  const image = tensor([
    [
      [
        [1, 2],
        [3, 4],
      ],
    ],
  ]);
  expect(call("aten::max_pool2d", image, 2)).toEqual([4]);
  expect(call("aten::max_pool2d", image, [2, 2])).toEqual([4]);
});

test("an optional tensor is left out by null: linear with and without bias", () => {
  const weight = tensor([
    [1, 1],
    [2, 0],
  ]);
  expect(call("aten::linear", tensor([1, 2]), weight, null)).toEqual([3, 2]);
  expect(call("aten::linear", tensor([1, 2]), weight, tensor([10, 20]))).toEqual([13, 22]);
});

test("a list of tensors is joined, and an empty one is refused", () => {
  expect(call("aten::cat", [tensor([1]), tensor([2, 3])], 0)).toEqual([1, 2, 3]);
  expect(failure(() => call("aten::cat", [], 0)).code).toBe("TORCH");
});

test("a list of optional tensors takes null for a whole dimension: column 1 of [[1, 2, 3], [4, 5, 6]]", () => {
  expect(call("aten::index.Tensor", twoByThree(), [null, tensor([1], { dtype: "int64" })])).toEqual([2, 5]);
});

test("names stand for dtype, layout, memory format and device", () => {
  expect(op("aten::to.dtype")(tensor([1.9]), "int32").toTypedArray()).toEqual(new Int32Array([1]));
  expect(String(op("aten::zeros")([2], "float64", "sparse", "cpu"))).toBe("Tensor(float64[2] Sparse)");
  expect(op("aten::clone")(zeros([1, 2, 2, 2]), "channels_last").strides).toEqual([8, 1, 4, 2]);
  expect(String(op("aten::zeros")([2], null, null, "meta"))).toBe("Tensor(float32[2] on meta)");
});

test("a name that is none of these is refused with the ones that are", () => {
  expect(failure(() => call("aten::to.dtype", ones([1]), "float8")).message).toMatch(
    /unknown dtype "float8". Allowed: float32/,
  );
  expect(failure(() => call("aten::zeros", [1], null, "dense")).message).toMatch(
    /Allowed: strided, sparse, sparse_csr/,
  );
  expect(failure(() => call("aten::clone", ones([1]), "rows")).message).toMatch(
    /Allowed: contiguous, preserve, channels_last/,
  );
  expect(failure(() => call("aten::zeros", [1], null, null, "gpu")).code).toBe("TORCH");
});

test("a string chooses a mode: -7 over 2 is -4 with floor and -3 with trunc", () => {
  const seven = tensor([-7]);
  expect(call("aten::div.Tensor_mode", seven, tensor([2]), "floor")).toEqual([-4]);
  expect(call("aten::div.Tensor_mode", seven, tensor([2]), "trunc")).toEqual([-3]);
  expect(call("aten::div.Tensor_mode", seven, tensor([2]), null)).toEqual([-3.5]);
});

test("a string can be an equation: the trace of [[1, 2], [3, 4]] by einsum is 5", () => {
  const square = tensor([
    [1, 2],
    [3, 4],
  ]);
  expect(call("aten::einsum", "ii->", [square])).toEqual([5]);
});

test("a list of strings names dimensions: the sum over `row`", () => {
  const named = op("aten::refine_names")(twoByThree(), ["dimname::row", "dimname::column"]);
  expect(call("aten::sum.dim_DimnameList", named, ["dimname::row"])).toEqual([5, 7, 9]);
});

test("lists of floats, booleans and scalars", () => {
  expect(call("aten::upsample_nearest1d.vec", tensor([[[1, 2]]]), null, [2])).toEqual([1, 1, 2, 2]);
  expect(call("aten::_foreach_add.ScalarList", [tensor([1]), tensor([2])], [10, 0.5])).toEqual([[11], [2.5]]);
  const one = tensor([[[1]]]);
  const conv = [
    "aten::convolution_backward",
    one,
    tensor([[[3]]]),
    tensor([[[2]]]),
    null,
    [1],
    [0],
    [1],
    false,
    [0],
    1,
  ] as const;
  const [name, ...args] = conv;
  expect(call(name, ...args, [true, true, false])).toEqual([[2], [3], null]);
});

test("a boolean and an optional float: variance of 1, 2, 3 with and without correction", () => {
  expect(call("aten::var", tensor([1, 2, 3]), true)).toEqual([1]);
  expect(call("aten::clamp", tensor([-1, 5]), null, 2.5)).toEqual([-1, 2.5]);
  expect(failure(() => call("aten::var", tensor([1]), 1)).message).toMatch(
    /argument 'unbiased' must be of type bool, got 1/,
  );
});

test("a generator decides the numbers: equal seeds, equal draws", () => {
  const draw = (seed: number) => call("aten::rand.generator", [2], new Generator(seed), "float32", null, "cpu");
  expect(draw(3)).toEqual(draw(3));
  expect(draw(3)).not.toEqual(draw(4));
});

test("several results come as an array: the maximum of each row and where it is", () => {
  expect(call("aten::max.dim", twoByThree(), 1)).toEqual([
    [3, 6],
    [2, 2],
  ]);
});

test("a list of tensors comes as an array: three columns", () => {
  expect(call("aten::unbind.int", twoByThree(), 1)).toEqual([
    [1, 4],
    [2, 5],
    [3, 6],
  ]);
});

test("numbers, booleans and nothing come as they are", () => {
  expect(call("aten::size.int", twoByThree(), 1)).toBe(3);
  expect(call("aten::is_floating_point", twoByThree())).toBe(true);
  expect(call("aten::item", tensor([2.5]))).toBe(2.5);
  expect(call("aten::_foreach_zero_", [tensor([1])])).toBeUndefined();
  expect(call("aten::result_type.Scalar", tensor([1], { dtype: "int64" }), 2.5)).toBe("float32");
});

test("an operator in place changes its tensor and returns another handle for it", () => {
  const counter = tensor([1, 2]);
  const returned = op("aten::add_.Scalar")(counter, 3);
  expect(counter.toArray()).toEqual([4, 5]);
  expect(returned.storageAddress).toBe(counter.storageAddress);
  expect(returned.handle).not.toBe(counter.handle);
});

test("an out variant writes where it is told", () => {
  const target = zeros([2]);
  op("aten::add.out")(tensor([1, 2]), tensor([10, 20]), 1, target);
  expect(target.toArray()).toEqual([11, 22]);
});

test("an argument that is left out has its default, also in the middle", () => {
  expect(call("aten::add.Tensor", tensor([1]), tensor([2]))).toEqual([3]);
  expect(call("aten::add.Tensor", tensor([1]), tensor([2]), undefined)).toEqual([3]);
  expect(call("aten::addmm", tensor([[1]]), tensor([[2]]), tensor([[3]]), undefined, 10)).toEqual([61]);
});

test("an argument without default cannot be left out", () => {
  expect(failure(() => call("aten::mm", tensor([[1]]))).message).toBe(
    "aten::mm(self float32[1, 1]): argument 'mat2' is missing. It must be of type Tensor.",
  );
  expect(failure(() => call("aten::mm", tensor([[1]]), null)).message).toMatch(/argument 'mat2' is missing/);
});

test("an error of libtorch names the operator and the shapes and dtypes it got", () => {
  const error = failure(() => call("aten::mm", zeros([2, 3]), zeros([4, 5], { dtype: "float64" })));
  expect(error.code).toBe("TORCH");
  expect(error.message).toBe(
    "aten::mm(self float32[2, 3], mat2 float64[4, 5]): mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
  );
});

test("an error about a device says which operator and not how libtorch is built", () => {
  const error = failure(() => call("aten::zeros", [1], null, null, "xla"));
  expect(error.message).toMatch(/^aten::zeros\(.*device "xla"\): Could not run 'aten::empty.memory_format'/);
  expect(error.message).not.toMatch(/This could be because/);
});

const wrongTensors: readonly [what: string, value: unknown, got: string][] = [
  ["a number", 3, "a number"],
  ["a string", "x", '"x"'],
  ["a boolean", true, "true"],
  ["an object", {}, "an object"],
  ["a function", () => 1, "a function"],
  ["a symbol", Symbol("s"), "an object"],
  ["a bigint", 3n, "a bigint"],
  ["a list", [1, [2]], "[1, [2]]"],
  ["a generator", new Generator(1), "a Generator"],
  ["a number in the range of handles", 2 ** 45, "a number"],
];

test.each(wrongTensors)("%s is no tensor", (_, value, got) => {
  const error = failure(() => call("aten::neg", value));
  expect(error.code).toBe("INVALID_ARGUMENT");
  expect(error.message).toContain(`got ${got}.`);
});

test("a tensor is no number, no integer, no list, no flag and no generator", () => {
  const one = tensor([1]);
  expect(failure(() => call("aten::add.Scalar", one, one)).message).toMatch(
    /'other' must be of type Scalar, got float32\[1\]/,
  );
  expect(failure(() => call("aten::size.int", one, one)).message).toMatch(
    /'dim' must be of type int, got float32\[1\]/,
  );
  expect(failure(() => call("aten::dropout", one, one, true)).message).toMatch(
    /'p' must be of type float, got float32\[1\]/,
  );
  expect(failure(() => call("aten::permute", one, one)).code).toBe("INVALID_ARGUMENT");
  expect(failure(() => call("aten::permute", one, [one])).code).toBe("INVALID_ARGUMENT");
  expect(failure(() => call("aten::rand.generator", [1], one)).message).toMatch(/expected a Generator, got a Tensor/);
});

test("integers are whole, finite and fit in 64 bits", () => {
  for (const dim of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 63, 2n ** 63n, "0", true]) {
    expect(failure(() => call("aten::size.int", tensor([1]), dim)).code).toBe("INVALID_ARGUMENT");
  }
});

test("a disposed tensor is refused by name, also inside a list", () => {
  const gone = tensor([1]);
  gone.dispose();
  expect(failure(() => call("aten::neg", gone)).code).toBe("DISPOSED_TENSOR");
  expect(failure(() => call("aten::cat", [tensor([1]), gone])).message).toMatch(
    /^aten::cat\(tensors \[float32\[1\], a disposed tensor\]\): argument 'tensors' is a disposed tensor/,
  );
});

test("more arguments than an operator takes are refused", () => {
  expect(failure(() => call("aten::addmm", tensor([[1]]), tensor([[2]]), tensor([[3]]), 1, 1, 1)).message).toMatch(
    /takes 5 arguments, got 6/,
  );
});

test("an array that holds itself is refused, not followed", () => {
  const circle: unknown[] = [1];
  circle.push(circle);
  expect(failure(() => call("aten::zeros", circle)).message).toContain("got [1, [1, [1, [...]]]].");
});

test("an array without elements can have any length, and is refused", () => {
  const hollow: number[] = [1];
  hollow.length = 4_294_967_295;
  expect(failure(() => call("aten::zeros", hollow)).code).toBe("INVALID_ARGUMENT");
});

test("what a getter in an array throws travels unchanged", () => {
  const thrown = new Error("from the getter");
  const list = [1, 2];
  Object.defineProperty(list, 1, {
    get: () => {
      throw thrown;
    },
  });
  expect(() => call("aten::zeros", list)).toThrow(thrown);
});

test("memory that does not exist is an error with its own code", () => {
  const error = failure(() => zeros([1e14]));
  expect(error.code).toBe("OUT_OF_MEMORY");
  expect(error.message).toMatch(/a tensor of 400000000000000 bytes does not fit: \d+ bytes are available/);
});

test("a generator that was disposed is refused", () => {
  const generator = new Generator(1);
  generator.dispose();
  expect(failure(() => call("aten::rand.generator", [1], generator)).message).toMatch(/this Generator was disposed/);
});

test("a value that JavaScript cannot look into travels as an object: packed weights of ones give 3 for three ones", () => {
  const packed = dynamicOp("prepacked::linear_clamp_prepack")(ones([2, 3]), null);
  expect(call("prepacked::linear_clamp_run", ones([1, 3]), packed)).toEqual([3, 3]);
  expect(failure(() => call("prepacked::linear_clamp_run", ones([1, 3]), ones([1]))).message).toMatch(
    /expected a Value, got a Tensor/,
  );
  expect(failure(() => call("prepacked::conv2d_clamp_run", ones([1, 1, 1, 1]), packed)).code).toBe("TORCH");
});

test("an operator that takes any number of values is refused", () => {
  expect(failure(() => call("static_runtime::dict_unpack")).code).toBe("UNSUPPORTED");
});

test("a list of fixed length has that length, or one number for all, or none where that is the default", () => {
  const image = ones([1, 1, 4, 4]);
  expect(call("aten::max_pool2d", image, [2], [])).toEqual([1, 1, 1, 1]);
  expect(failure(() => call("aten::max_pool2d", image, [2, 2, 2])).message).toMatch(
    /'kernel_size' takes 2 integers, got 3/,
  );
  expect(failure(() => call("aten::reflection_pad1d", ones([1, 4]), [])).message).toMatch(
    /'padding' takes 2 integers, got 0/,
  );
});

test("sizes, counts and positions past 2^48 are refused, bounds of values are not", () => {
  expect(failure(() => ones([2]).repeatInterleave(2 ** 52, 0)).message).toMatch(
    /argument 'repeats' must be an integer of at most 2\^48, got 4503599627370496/,
  );
  expect(failure(() => call("aten::reshape", ones([2]), [-(2n ** 63n)])).code).toBe("INVALID_ARGUMENT");
  expect(call("aten::slice.Tensor", tensor([1, 2, 3]), 0, 1, 2n ** 63n - 1n)).toEqual([2, 3]);
  const drawn = dynamicOp("aten::randint.low")(2n ** 60n, 2n ** 61n, [1]) as Tensor;
  expect(drawn.toTypedArray()[0]).toBeGreaterThan(2n ** 60n - 1n);
});

test("the lowest integer over -1 is an error and not the end of the process", () => {
  for (const dtype of ["int64", "int32"] as const) {
    const lowest = op("aten::full")([2], dtype === "int64" ? -(2n ** 63n) : -(2 ** 31), dtype);
    const minusOne = tensor([1, -1], { dtype });
    const divisions = [
      () => lowest.floorDivide(-1),
      () => lowest.floorDivide(minusOne),
      () => lowest.remainder(-1),
      () => lowest.remainder(minusOne),
      () => op("aten::fmod.Tensor")(lowest, minusOne),
      () => op("aten::div.Tensor_mode")(lowest, minusOne, "trunc"),
      () => op("aten::floor_divide_.Scalar")(lowest, -1),
    ];
    for (const divide of divisions)
      expect(failure(divide).message).toMatch(/the lowest integer cannot be divided by -1/);
    expect(op("aten::div.Tensor_mode")(lowest, minusOne, null).dtype).toBe("float32");
  }
  expect(tensor([-7, 7], { dtype: "int64" }).floorDivide(-1).toArray()).toEqual([7, -7]);
});
