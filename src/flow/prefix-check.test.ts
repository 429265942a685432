import { expect, test } from "vitest";
import { checkPrefix, findPrefix } from "./prefix-check.ts";

test("a prompt that starts with all earlier tokens extends them by the rest", () => {
  expect(checkPrefix([1, 2, 3], [1, 2, 3, 9, 9])).toEqual({ kind: "extends", numNew: 2 });
  expect(checkPrefix([1, 2, 3], [1, 2, 3])).toEqual({ kind: "extends", numNew: 0 });
  expect(checkPrefix([], [5])).toEqual({ kind: "extends", numNew: 1 });
});

test("a prompt that differs or is shorter breaks at the first position that is not there", () => {
  expect(checkPrefix([1, 2, 3], [1, 7, 3, 4])).toEqual({ kind: "breaks", at: 1 });
  expect(checkPrefix([1, 2, 3], [1, 2])).toEqual({ kind: "breaks", at: 2 });
});

test("the longest sequence that the prompt extends is found", () => {
  expect(findPrefix([[1], [1, 2], [1, 2, 4]], [1, 2, 3])).toEqual({ kind: "extends", index: 1, numNew: 1 });
});

test("without one, the sequence that agrees longest tells where the break is", () => {
  expect(
    findPrefix(
      [
        [4, 4],
        [1, 2, 9],
        [1, 8],
      ],
      [1, 2, 3],
    ),
  ).toEqual({ kind: "breaks", index: 1, at: 2 });
  expect(findPrefix([[4, 4], [5]], [1, 2, 3])).toEqual({ kind: "breaks", index: 0, at: 0 });
  expect(findPrefix([], [1])).toEqual({ kind: "breaks", index: -1, at: 0 });
});
