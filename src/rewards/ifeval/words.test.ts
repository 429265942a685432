import { expect, test } from "vitest";
import { countCapitalWords, countWords, isLowerCase, isUpperCase } from "./words.ts";

test.each([
  { text: "it's a state-of-the-art_x 3.5", count: 9 },
  { text: "naïve Straße 北京", count: 3 },
  { text: "--- !!!", count: 0 },
])("$text has $count words", ({ text, count }) => {
  expect(countWords(text)).toBe(count);
});

test.each([
  { text: "The U.S. and the UK", count: 2 },
  { text: "AC/DC, R&B and X-RAY", count: 3 },
  { text: "I DON'T KNOW", count: 4 },
  { text: "COVID-19 in 2020", count: 1 },
  { text: "iPhone OKs", count: 0 },
])("$text has $count capital words", ({ text, count }) => {
  expect(countCapitalWords(text)).toBe(count);
});

test("case is asked of letters only, and of at least one", () => {
  expect([isUpperCase("A1!"), isUpperCase("1!"), isUpperCase("Ab")]).toEqual([true, false, false]);
  expect([isLowerCase("a1!"), isLowerCase("1!"), isLowerCase("Ab")]).toEqual([true, false, false]);
});
