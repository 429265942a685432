import { expect, test } from "vitest";
import { GrammarStates } from "./grammar-states.ts";
import { ReplyPosition } from "./reply-position.ts";
import { SharedMasks } from "./shared-masks.ts";
import { type LengthBounds, lengthBounds, lengthMark, TokenLengths } from "./string-lengths.ts";
import type { GrammarMatcher } from "./xgrammar.ts";

/** In the alphabet of byte-level tokenizers: Ã¼ is how the two bytes of ü are written, Ã and ¼ are one of them each, Ġ is a space. */
const tokens = ["a", "abc", '"', 'b"', '",Ġ"', "\\", "n", "u", "00e9", "Ã¼", "Ã", "¼", 'Ã¼bc"'];
const id = (token: string) => tokens.indexOf(token);

/** A reply in a string with these bounds, behind its opening quote, after these tokens. */
async function allowedAfter(min: number, max: number, ...drawn: string[]): Promise<readonly string[]> {
  const { position, marks } = replyWith({ min, max });
  for (const token of ['"', ...drawn]) position.accept(id(token));
  expect(marks[0]).toBe(lengthMark({ min, max }));
  const mask = position.mask ?? (await position.ask());
  return tokens.filter((_, index) => ((mask[0]! >> index) & 1) === 1);
}

/** A matcher that takes every token, and the marks of the first string or of all. */
function replyWith(bounds: LengthBounds, numStrings = 1) {
  const marks: string[] = [];
  const matcher: GrammarMatcher = {
    acceptToken: () => true,
    _acceptString: (mark) => marks.push(mark) <= numStrings,
    getNextTokenBitmask: () => Promise.resolve(new Int32Array(1).fill(-1)),
    dispose: () => {},
  };
  const parts = {
    places: { trigger: undefined, bounds: [bounds], markIds: undefined },
    states: new GrammarStates(),
    lengths: new TokenLengths(tokens, tokens.length),
    masks: new SharedMasks(),
  };
  return { position: new ReplyPosition(matcher, parts, []), marks };
}

const except = (...left: string[]) => tokens.filter((token) => !left.includes(token));

test("tokens with more characters than are left are taken away, and so are those that close a string too early", async () => {
  expect(await allowedAfter(0, 2)).toEqual(except("abc", "00e9", 'Ã¼bc"'));
  expect(await allowedAfter(3, 100)).toEqual(except('"', 'b"', '",Ġ"'));
  expect(await allowedAfter(3, 100, "abc")).toEqual(tokens);
  expect(await allowedAfter(0, 3, "abc")).toEqual(['"', '",Ġ"', "¼"]);
});

test("a character of several bytes, or written as an escape, counts once", async () => {
  expect(await allowedAfter(0, 1, "Ã¼")).toEqual(['"', '",Ġ"', "¼"]);
  expect(await allowedAfter(0, 1, "Ã")).toEqual(['"', '",Ġ"', "¼"]);
  // Behind the backslash one character is already counted: n ends it, a quote is part of it. What no escape ends with is left to the grammar.
  expect(await allowedAfter(0, 1, "\\")).toEqual(["a", '"', 'b"', "\\", "n", "u", "Ã¼", "Ã", "¼"]);
  expect(await allowedAfter(0, 1, "\\", '"')).toEqual(['"', '",Ġ"', "¼"]);
  expect(await allowedAfter(0, 1, "\\", "u", "00e9")).toEqual(['"', '",Ġ"', "¼"]);
});

test("a closed string restricts nothing, and a token that closes one may open the next", async () => {
  expect(await allowedAfter(0, 1, 'b"')).toEqual(tokens);
  const { position, marks } = replyWith({ min: 0, max: 1 }, 2);
  for (const token of ['"', "a", '",Ġ"']) position.accept(id(token));
  expect(marks).toEqual([lengthMark({ min: 0, max: 1 }), lengthMark({ min: 0, max: 1 })]);
});

test("bounds are read from rules, the widest first", () => {
  const rules = ["2to5", "0to5", "40toInfinity", "2to5"].map((text) => `"\\U00000001${text}\\U00000002"`).join(" ");
  expect(lengthBounds(rules)).toEqual([
    { min: 40, max: Infinity },
    { min: 0, max: 5 },
    { min: 2, max: 5 },
  ]);
});
