import { expect, test } from "vitest";
import { loadTokenizer } from "../../chat/tokenizer/load-tokenizer.ts";
import { StopTextFinder } from "./stop-text-finder.ts";

const tokenizer = await loadTokenizer("fixtures/tokenizer");

/** What is found at each token of a text. */
function search(text: string, stops: readonly string[]): (string | undefined)[] {
  const stopText = new StopTextFinder(tokenizer, stops);
  return [...tokenizer.encode(text)].map((id) => stopText.push(id));
}

test("a stop string is found at the token that completes it, wherever the tokens end", () => {
  const text = "one two\n\nthree";
  const found = search(text, ["o\n\nt"]);
  const ids = [...tokenizer.encode(text)];
  const end = ids.findIndex((_, i) => tokenizer.decode(ids.slice(0, i + 1)).includes("o\n\nt"));
  expect(ids.length).toBeGreaterThan(1);
  expect(found.indexOf("o\n\nt")).toBe(end);
});

test("a stop string that breaks off is not found, and one that begins again is", () => {
  expect(search("aab ab", ["aaab"])).not.toContain("aaab");
  expect(search("aaaab", ["aaab"])).toContain("aaab");
});

test("a single character is a stop string too", () => {
  expect(search("ab.", ["."]).at(-1)).toBe(".");
});

test("of two stop strings the one that comes first in the text ends it", () => {
  expect(search("x END y STOP", ["STOP", "END"]).find((found) => found !== undefined)).toBe("END");
});

test("a stop string of bytes that no token holds alone is found when the last byte is there", () => {
  const found = search("a😀b", ["😀"]);
  expect(found.filter((text) => text !== undefined)).toEqual(["😀"]);
});

test("special tokens count as text", () => {
  const [name] = [...tokenizer.specialIds].map((id) => tokenizer.tokenOf(id));
  expect(search(`x${name}`, [name!])).toContain(name);
});
