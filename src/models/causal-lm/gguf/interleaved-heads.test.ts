import { expect, test } from "vitest";
import { undoInterleaving } from "./interleaved-heads.ts";

test("rows of each head go back from interleaved to halves", () => {
  // Two heads of 4 rows of 1 value. llama.cpp stores rows 0, 2, 1, 3 of Hugging Face's 0, 1, 2, 3.
  const stored = Float32Array.of(0, 2, 1, 3, 10, 12, 11, 13);
  expect([...undoInterleaving(stored, 8, 2)]).toEqual([0, 1, 2, 3, 10, 11, 12, 13]);
});

test("whole rows move", () => {
  // One head of 6 rows of 2 values: stored 0, 3, 1, 4, 2, 5.
  const stored = Float32Array.of(0, 0.5, 3, 3.5, 1, 1.5, 4, 4.5, 2, 2.5, 5, 5.5);
  expect([...undoInterleaving(stored, 6, 1)]).toEqual([0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5]);
});
