import { expect, test } from "vitest";
import { SearchIndex } from "./search-index.ts";

function indexOf(...documents: string[]): SearchIndex {
  const index = new SearchIndex();
  for (const text of documents) index.add(text.split(" "));
  return index;
}

test("scores follow the BM25 formula with k1 0.9 and b 0.4", () => {
  // N = 2, n = 2: idf = ln(1 + 0.5 / 2.5) = ln 1.2. Mean length 3.
  // Saturation of lengths 2 and 4: 0.9 (0.6 + 0.4 * 2 / 3) = 0.78 and 0.9 (0.6 + 0.4 * 4 / 3) = 1.02.
  const hits = indexOf("red shoe", "red red hat box").search(["red"], 10);
  expect(hits.map(({ document }) => document)).toEqual([1, 0]);
  expect(hits[0]!.score).toBeCloseTo((Math.log(1.2) * 2) / 3.02, 12);
  expect(hits[1]!.score).toBeCloseTo(Math.log(1.2) / 1.78, 12);
});

test("a rare word outweighs a common one, and a word asked for twice counts twice", () => {
  const index = indexOf("red shoe", "red hat", "red box");
  expect(index.search(["red", "hat"], 10)[0]!.document).toBe(1);
  const [once] = index.search(["hat"], 10);
  const [twice] = index.search(["hat", "hat"], 10);
  expect(twice!.score).toBeCloseTo(2 * once!.score, 12);
});

test("equal scores keep the order of the documents, and the limit cuts", () => {
  const index = indexOf("red shoe", "red hat", "red box");
  expect(index.search(["red"], 2).map(({ document }) => document)).toEqual([0, 1]);
  expect(index.search(["green"], 2)).toEqual([]);
});

test("lengths of 24 and more are rounded down to four leading bits above 24", () => {
  // 24 + 17 is kept as 24 + 16: one word more than 40 changes nothing but the mean length.
  const words = (count: number) => Array.from({ length: count }, () => "word").join(" ");
  const hits = indexOf(`red ${words(39)}`, `red ${words(40)}`).search(["red"], 2);
  expect(hits[0]!.score).toBe(hits[1]!.score);
});
