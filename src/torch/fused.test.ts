import { expect, test } from "vitest";
import { ones, tensor, zeros } from "./create.ts";
import { attention, packedAttention, scaledTo } from "./fused.ts";
import { tensorScope } from "./scope.ts";

test("attention without heads, and heads that do not divide, are refused before libtorch sees them", () => {
  const run =
    (H: number, G: number, K = 4) =>
    () =>
      attention(zeros([1, H, 2, K]), zeros([1, G, 2, K]), zeros([1, G, 2, K]));
  for (const [H, G, K] of [
    [0, 0],
    [0, 1],
    [2, 0],
    [3, 2],
    [1, 1, 0],
  ] as const) {
    expect(run(H, G, K)).toThrow(`with H a multiple of G and none of H, G, K 0: got [1,${H},2,${K ?? 4}]`);
  }
  expect(() => attention(zeros([2, 2, 4]), zeros([2, 2, 4]), zeros([2, 2, 4]))).toThrow(
    "attention takes q [B, H, T, K]",
  );
  expect(run(4, 2)().shape).toEqual([1, 4, 2, 4]);
});

test("queries with more keys than themselves are the last of their sequence", () => {
  // Keys of zero make every weight equal: a query gets the mean of the values that it sees.
  const rows = (lengths: number[], starts: number[]) => ({
    lengths,
    starts_int32: tensor(Int32Array.from(starts), [starts.length]),
    maxLength: Math.max(...lengths),
  });
  const values = tensor([2, 4, 9, 1, 3], { dtype: "float32" }).view(5, 1, 1);
  const keys = rows([3, 2], [0, 3, 5]);
  const out = packedAttention(ones([3, 1, 1]), zeros([5, 1, 1]), values, { ...rows([2, 1], [0, 2, 3]), keys });
  expect(out.view(3).toArray()).toEqual([3, 5, 2]);
  const near = packedAttention(ones([3, 1, 1]), zeros([5, 1, 1]), values, {
    ...rows([2, 1], [0, 2, 3]),
    keys,
    window: 1,
  });
  expect(near.view(3).toArray()).toEqual([4, 9, 3]);
});

test("scaledTo is a product in the type that is asked for: 1.5 and -4 times a half", () => {
  tensorScope(() => {
    const scaled = scaledTo(tensor([1.5, -4]), tensor(0.5), "bfloat16");
    expect(scaled.dtype).toBe("bfloat16");
    expect(scaled.to("float32").toArray()).toEqual([0.75, -2]);
  });
});
