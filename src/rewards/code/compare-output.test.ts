import fc from "fast-check";
import { expect, test } from "vitest";
import { isSameText, isSameValue } from "./compare-output.ts";

test.each([
  ["3\n", "3", true],
  ["3 \r\n4\n\n", "3\n4", true],
  ["\n3", "3", true],
  ["3 4", "3\n4", false],
  ["3  4", "3 4", true],
  ["", "3", false],
  ["yes", "YES", false],
  ["0.3333333", "0.33333333", true],
  ["0.3334", "0.3333", false],
  ["1000000.5", "1000001.0", true],
  ["1.0", "1", true],
  ["1000001", "1000002", false],
  ["1e-9", "0.0", true],
  ["nan", "nan", true],
  ["abc.d", "abc.e", false],
])("text %j against %j is %j", (got, expected, isSame) => {
  expect(isSameText(got, expected, 1e-6)).toBe(isSame);
});

test.each([
  [1, 1, true],
  [true, 1, true],
  [1, true, true],
  [0, "0", false],
  [null, 0, false],
  [[1, [2]], [1, [2]], true],
  [[1, 2], [2, 1], false],
  [[1], [1, 2], false],
  [{ a: 1, b: [2] }, { b: [2], a: 1 }, true],
  [{ a: 1 }, { b: 1 }, false],
  [[], {}, false],
  [0.1 + 0.2, 0.3, true],
  [1000001, 1000002, false],
  [9007199254740993n, 9007199254740992, false],
  [9007199254740992n, 9007199254740992, true],
  [10n ** 400n, 10n ** 400n + 1n, false],
])("value %s against %s is %s", (got, expected, isSame) => {
  expect(isSameValue(got, expected, 1e-6)).toBe(isSame);
});

test("every value is the same as itself", () => {
  fc.assert(fc.property(fc.json({ maxDepth: 3 }), (text) => isSameValue(JSON.parse(text), JSON.parse(text), 0)));
});
