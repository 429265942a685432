import { expect, test } from "vitest";
import { LatestTexts } from "./latest-texts.ts";

test("a text is new once, however often it comes, and the oldest is forgotten for one too many", () => {
  const texts = new LatestTexts(2);
  expect(texts.last).toBe(undefined);
  expect(["a", "a", "b", "a"].map((text) => texts.add(text))).toEqual([true, false, true, false]);
  expect([texts.size, texts.last]).toEqual([2, "a"]);
  // "b" was said longest ago.
  expect(["c", "a", "b"].map((text) => texts.add(text))).toEqual([true, false, true]);
  expect([texts.size, texts.last]).toEqual([2, "b"]);
});
