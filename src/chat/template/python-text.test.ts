import { expect, test } from "vitest";
import { pythonText } from "./python-text.ts";

test("plain data is written as Python's str writes it", () => {
  expect(pythonText("it's")).toBe("it's");
  expect(pythonText({ a: [1, 1.5, true, null], b: "it's", c: 'a "b"\n' })).toBe(
    `{'a': [1, 1.5, True, None], 'b': "it's", 'c': 'a "b"\\n'}`,
  );
});
