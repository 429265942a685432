import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { stalenessMask } from "./staleness-mask.ts";

const inputs = {
  versions_BT: tensor(
    [
      [7, 8, 9],
      [10, 10, 0],
    ],
    { dtype: "int64" },
  ),
  lossMask_BT: tensor([
    [1, 1, 1],
    [1, 1, 0],
  ]).ne(0),
};

test("tokens more than the allowed versions old are dropped", () => {
  const options = { currentVersion: 10, maxStaleness: 2, scope: "token" } as const;
  expect(stalenessMask(inputs, options).toArray()).toEqual([0, 1, 1, 1, 1, 0]);
  expect(stalenessMask(inputs, { ...options, maxStaleness: 0 }).toArray()).toEqual([0, 0, 0, 1, 1, 0]);
});

test("a stale token may take its row with it; padding is not stale", () => {
  const options = { currentVersion: 10, maxStaleness: 2, scope: "sequence" } as const;
  expect(stalenessMask(inputs, options).toArray()).toEqual([0, 0, 0, 1, 1, 0]);
});

test("versions must be whole numbers per token", () => {
  const versions_BT = tensor([[7]]);
  expect(() =>
    stalenessMask({ ...inputs, versions_BT }, { currentVersion: 1, maxStaleness: 0, scope: "token" }),
  ).toThrow(/versions_BT must be int64 \[2, 3\] like lossMask_BT: got float32 \[1, 1\]/);
});
