import { expect, test } from "vitest";
import { countSentences } from "./count-sentences.ts";

test.each([
  { text: "", count: 0 },
  { text: "no end", count: 1 },
  { text: "One. Two? Three!", count: 3 },
  { text: 'He said "Go." Then he went.', count: 2 },
  { text: "Dr. Who met Mr. J. Smith at 3 p.m. today.", count: 1 },
  { text: "It is 3.14 or so. Really.", count: 2 },
  { text: "Wait... what? Yes... No.", count: 3 },
  { text: "A heading\n\nIts text.", count: 1 },
  { text: "1. First thing\n2. Second thing", count: 3 },
  { text: "see page 12. and so on.", count: 1 },
  { text: "one. two. three.", count: 3 },
  { text: "*Really?* Yes.", count: 2 },
])("$text has $count", ({ text, count }) => {
  expect(countSentences(text)).toBe(count);
});
