import { expect, test } from "vitest";
import { wordVerdict } from "./word-verdict.ts";

const tokens = (masses: Readonly<Record<string, number>>) =>
  Object.entries(masses).map(([token, mass]) => ({ token, logprob: Math.log(mass) }));
const yesNo = { answers: [" Yes"], contrary: ["No"] };

test.each([
  { masses: { " Yes": 0.6, No: 0.3, "\nyes": 0.1 }, verdict: 0.7 },
  { masses: { "Yes.": 0.3, '"Yes': 0.2, "▁Yes": 0.2, ĠYes: 0.1, No: 0.1 }, verdict: 0.8 },
  { masses: { Y: 0.9, No: 0.1 }, verdict: 0.9 },
  { masses: { No: 0.9, The: 0.1 }, verdict: 0 },
])("$masses give Yes $verdict", ({ masses, verdict }) => {
  expect(wordVerdict(yesNo, tokens(masses))).toBeCloseTo(verdict, 12);
});

test("a judge that mostly answers with other words fails, unless any word may be the answer", () => {
  const other = tokens({ The: 0.99, Yes: 0.001 });
  expect(() => wordVerdict(yesNo, other)).toThrow('most likely begins with "The"');
  expect(wordVerdict({ answers: ["Yes"], contrary: [] }, other)).toBeCloseTo(0.001, 12);
});

test("a token that begins several words counts for none", () => {
  const words = { answers: ["north"], contrary: ["none"] };
  expect(wordVerdict(words, tokens({ no: 0.4, north: 0.5 }))).toBeCloseTo(0.5, 12);
});
