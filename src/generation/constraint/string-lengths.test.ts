import { expect, test } from "vitest";
import { BoundedStrings, lengthBounds, lengthMark, TokenLengths } from "./string-lengths.ts";

/** In the alphabet of byte-level tokenizers: Ã¼ is how the two bytes of ü are written, Ã and ¼ are one of them each, Ġ is a space. */
const tokens = ["a", "abc", '"', 'b"', '",Ġ"', "\\", "n", "u", "00e9", "Ã¼", "Ã", "¼", 'Ã¼bc"'];
const id = (token: string) => tokens.indexOf(token);

/** A reply in a string with these bounds, behind its opening quote, after these tokens. */
function allowedAfter(min: number, max: number, ...drawn: string[]): readonly string[] {
  const marks: string[] = [];
  const strings = new BoundedStrings(new TokenLengths(tokens, tokens.length), [{ min, max }], (mark) => {
    marks.push(mark);
    return marks.length === 1;
  });
  for (const token of ['"', ...drawn]) strings.accept(id(token));
  expect(marks[0]).toBe(lengthMark({ min, max }));
  const mask = new Int32Array(1).fill(-1);
  strings.restrict(mask);
  return tokens.filter((_, index) => ((mask[0]! >> index) & 1) === 1);
}

const except = (...left: string[]) => tokens.filter((token) => !left.includes(token));

test("tokens with more characters than are left are taken away, and so are those that close a string too early", () => {
  expect(allowedAfter(0, 2)).toEqual(except("abc", "00e9", 'Ã¼bc"'));
  expect(allowedAfter(3, 100)).toEqual(except('"', 'b"', '",Ġ"'));
  expect(allowedAfter(3, 100, "abc")).toEqual(tokens);
  expect(allowedAfter(0, 3, "abc")).toEqual(['"', '",Ġ"', "¼"]);
});

test("a character of several bytes, or written as an escape, counts once", () => {
  expect(allowedAfter(0, 1, "Ã¼")).toEqual(['"', '",Ġ"', "¼"]);
  expect(allowedAfter(0, 1, "Ã")).toEqual(['"', '",Ġ"', "¼"]);
  // Behind the backslash one character is already counted: n ends it, a quote is part of it. What no escape ends with is left to the grammar.
  expect(allowedAfter(0, 1, "\\")).toEqual(["a", '"', 'b"', "\\", "n", "u", "Ã¼", "Ã", "¼"]);
  expect(allowedAfter(0, 1, "\\", '"')).toEqual(['"', '",Ġ"', "¼"]);
  expect(allowedAfter(0, 1, "\\", "u", "00e9")).toEqual(['"', '",Ġ"', "¼"]);
});

test("a closed string restricts nothing, and a token that closes one may open the next", () => {
  expect(allowedAfter(0, 1, 'b"')).toEqual(tokens);
  const asked: string[] = [];
  const bounds = [{ min: 0, max: 1 }];
  const strings = new BoundedStrings(new TokenLengths(tokens, tokens.length), bounds, (mark) => asked.push(mark) > 0);
  for (const token of ['"', "a", '",Ġ"']) strings.accept(id(token));
  expect(asked).toEqual([lengthMark(bounds[0]!), lengthMark(bounds[0]!)]);
});

test("bounds are read from rules, the widest first", () => {
  const rules = ["2to5", "0to5", "40toInfinity", "2to5"].map((text) => `"\\U00000001${text}\\U00000002"`).join(" ");
  expect(lengthBounds(rules)).toEqual([
    { min: 40, max: Infinity },
    { min: 0, max: 5 },
    { min: 2, max: 5 },
  ]);
});
