import { expect, test } from "vitest";
import { parseExact, stringifyExact } from "./exact-json.ts";

test("integers beyond 2^53 keep their last digit", () => {
  expect(parseExact("[9007199254740993, -9007199254740993, 9007199254740991]")).toEqual([
    9007199254740993n,
    -9007199254740993n,
    9007199254740991,
  ]);
});

test("digits in strings, in fractions and in exponents are no integers", () => {
  const text = '{"9007199254740993": "9007199254740993 \\" 9007199254740993", "f": [0.12345678901234567890, 1e5]}';
  expect(parseExact(text)).toEqual(JSON.parse(text));
  for (const number of ["12345678901234567890.5", "12345678901234567890e2"]) {
    expect(parseExact(number)).toBe(Number(number));
  }
});

test("what is no JSON is refused as JSON refuses it", () => {
  expect(() => parseExact('["9007199254740993')).toThrow(SyntaxError);
});

test("what was read is written back digit by digit", () => {
  const text = '{"a":[12345678901234567890123,null,true,"x\\n",1.5],"b":{}}';
  expect(stringifyExact(parseExact(text))).toBe(text);
});
