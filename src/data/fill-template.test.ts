import { expect, test } from "vitest";
import { fillTemplate, valueAt } from "./fill-template.ts";

const row = {
  question: "1 + {two}?",
  level: 3,
  tests: ["a", "b"],
  meta: { source: "x", parts: [1] },
  "a.b": "dotted",
  none: null,
};

test("placeholders are columns, or fields inside of them by a path", () => {
  expect(fillTemplate("Q: {question} ({level}, {meta.source}, {a.b})", row)).toBe("Q: 1 + {two}? (3, x, dotted)");
});

test("lists of texts are joined by line ends, other values are JSON", () => {
  expect(fillTemplate("{tests}\n{meta}", row)).toBe('a\nb\n{"source":"x","parts":[1]}');
});

test("braces without a name stay, doubled braces are braces", () => {
  expect(fillTemplate("\\boxed{} {{question}} { x } {1}", row)).toBe("\\boxed{} {question} { x } {1}");
});

test("a placeholder without a value is an error that lists the columns", () => {
  expect(() => fillTemplate("{qestion}", row)).toThrow(
    "names {qestion}, which the row does not have. Its columns are: question, level",
  );
  expect(() => fillTemplate("{none}", row)).toThrow("{none}");
  expect(() => fillTemplate("{constructor.name}", row)).toThrow("{constructor.name}");
});

test("a path does not reach into texts, lists or what objects inherit", () => {
  expect(valueAt(row, "question.length")).toBeUndefined();
  expect(valueAt(row, "tests.0")).toBeUndefined();
  expect(valueAt(row, "toString")).toBeUndefined();
});
