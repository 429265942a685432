import { expect, test } from "vitest";
import { englishTerms } from "./english-terms.ts";

test("stop words go, possessives go, the rest is lower-cased and stemmed", () => {
  expect(englishTerms("The Women's Shoes with a Rubber Sole")).toEqual(["women", "shoe", "rubber", "sole"]);
});

test("signs inside words and numbers join, all others split", () => {
  expect(englishTerms("14.125 x 1,000 u.s.a material:wood usb-c/hdmi 3d_print ___")).toEqual([
    "14.125",
    "x",
    "1,000",
    "u.s.a",
    "material:wood",
    "usb",
    "c",
    "hdmi",
    "3d_print",
  ]);
});
