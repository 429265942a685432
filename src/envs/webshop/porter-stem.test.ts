import { expect, test } from "vitest";
import { porterStem } from "./porter-stem.ts";

test.each([
  ["plurals", "caresses caress ponies poni ties ti cats cat"],
  ["participles", "feed feed agreed agre plastered plaster bled bled motoring motor sing sing"],
  [
    "endings after participles",
    "conflated conflat troubled troubl sized size hopping hop falling fall hissing hiss filing file",
  ],
  ["a final y", "happy happi sky sky"],
  [
    "double suffixes",
    "relational relat conditional condit vietnamization vietnam adjustability adjust technology technolog",
  ],
  ["single suffixes", "revival reviv allowance allow adoption adopt irritant irrit"],
  ["a final e and a double l", "probate probat rate rate controll control"],
])("the stemmer handles %s", (_, pairs) => {
  const words = pairs.split(" ");
  for (let i = 0; i < words.length; i += 2) expect(porterStem(words[i]!), words[i]).toBe(words[i + 1]);
});

test("words of two characters stay as they are", () => {
  expect(["is", "as", "ed", "x"].map(porterStem)).toEqual(["is", "as", "ed", "x"]);
});
