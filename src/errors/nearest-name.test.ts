import { expect, test } from "vitest";
import { nearestName } from "./nearest-name.ts";

test("nearest name is the one with the fewest edits", () => {
  // "kitten" to "sitten" is 1 edit, to "sitting" 3.
  expect(nearestName("kitten", ["sitting", "sitten"])).toBe("sitten");
});

test("nearest name is found across the spellings of one weight", () => {
  const names = ["model.embed_tokens.weight", "layers.0.self_attn.q_proj.weight", "layers.0.self_attn.o_proj.weight"];
  expect(nearestName("layers.0.attn.q.weight", names)).toBe("layers.0.self_attn.q_proj.weight");
});

test("nearest name keeps the first of two equally near names", () => {
  expect(nearestName("layers.1", ["layers.2", "layers.3"])).toBe("layers.2");
});

test("nearest name suggests nothing when more than half of the name differs", () => {
  // "abcd" to "abzz" is 2 of 4 edits and is offered; "azzz" is 3 of 4 and is not.
  expect(nearestName("abcd", ["abzz"])).toBe("abzz");
  expect(nearestName("abcd", ["azzz"])).toBeUndefined();
  expect(nearestName("abcd", [])).toBeUndefined();
});

test("nearest name does not compare names of hostile length", () => {
  expect(nearestName("a".repeat(257), ["a".repeat(257)])).toBeUndefined();
  expect(nearestName("a".repeat(256), ["a".repeat(1_000_000), `${"a".repeat(255)}b`])).toBe(`${"a".repeat(255)}b`);
});
