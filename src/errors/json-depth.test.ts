import { expect, test } from "vitest";
import { jsonDepth } from "./json-depth.ts";

test("json depth counts arrays and objects and not what stands in strings", () => {
  expect(jsonDepth("3")).toBe(0);
  expect(jsonDepth('{"a": [1, {"b": 2}], "c": []}')).toBe(3);
  expect(jsonDepth('{"[[[\\"[[[": "{{{"}')).toBe(1);
});

test("json depth of an unfinished text is that of what is there", () => {
  expect(jsonDepth("[[[[")).toBe(4);
  expect(jsonDepth('["abc\\')).toBe(1);
});
