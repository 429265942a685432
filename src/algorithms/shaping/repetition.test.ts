import { expect, test } from "vitest";
import { repetitionPenalty } from "./repetition.ts";

test("one token five times has one distinct pair of four", () => {
  expect(repetitionPenalty([5, 5, 5, 5, 5], { ngram: 2 })).toBe(-0.75);
});

test("words without repetition cost nothing", () => {
  expect(repetitionPenalty(["the", "cat", "sat"], { ngram: 2 })).toBe(0);
});

test("a reply shorter than one run costs nothing", () => {
  expect(repetitionPenalty([1, 1], { ngram: 3 })).toBe(0);
});

test("runs are not confused by where their items end", () => {
  expect(repetitionPenalty(["1,2", "3", "1", "2,3"], { ngram: 2 })).toBe(0);
});

test("the penalty can be scaled", () => {
  expect(repetitionPenalty([7, 7, 7], { ngram: 1, maxPenalty: 0.3 })).toBeCloseTo(-0.2, 12);
});

test("a run of no items is refused", () => {
  expect(() => repetitionPenalty([1], { ngram: 0 })).toThrow(/ngram must be a whole number of at least 1: got 0/);
});
