import { expect, test } from "vitest";
import { z } from "zod";
import { parseOptions, schemasAt } from "./parse-options.ts";

const schema = z.strictObject({
  count: z.int().min(1).max(9).default(2).describe("How many."),
  mode: z.enum(["fast", "slow"]).nullable().default(null),
  path: z.union([z.string(), z.array(z.string())]).optional(),
  range: z.tuple([z.number(), z.number()]).optional(),
  parts: z.record(z.string(), z.strictObject({ weight: z.number() })).default({}),
  source: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("file"), name: z.string() }),
      z.strictObject({ type: z.literal("env"), seed: z.int().default(1) }),
    ])
    .prefault({ type: "env" }),
  list: z.array(z.strictObject({ ratio: z.number().gt(0) })).default([]),
});

const message = (value: unknown, path = "a") => {
  try {
    parseOptions(schema, value, path);
  } catch (error) {
    return (error as Error).message;
  }
  return "parsed";
};

test("what fits comes out with its defaults", () => {
  expect(parseOptions(schema, { count: 3 }, "a")).toEqual({
    count: 3,
    mode: null,
    parts: {},
    source: { type: "env", seed: 1 },
    list: [],
  });
});

test.each([
  [
    { cuont: 3 },
    "a.cuont is not an option. Did you mean count? Known are: count, mode, path, range, parts, source, list.",
  ],
  [{ parts: { x: { wieght: 1 } } }, "a.parts.x.wieght is not an option. Did you mean weight? Known are: weight."],
  [{ list: [{ ratoi: 1 }] }, "a.list.0.ratoi is not an option. Did you mean ratio? Known are: ratio."],
  [{ source: { type: "env", sede: 1 } }, "a.source.sede is not an option. Did you mean seed? Known are: type, seed."],
  [{ source: { type: "flie" } }, 'a.source.type must be one of file, env: got "flie". Did you mean file?'],
  [{ mode: "fasst" }, 'a.mode must be one of fast, slow: got "fasst". Did you mean fast?'],
  [{ count: 0 }, "a.count is not valid: got 0. It must be at least 1. Meaning: How many."],
  [{ count: 10 }, "a.count is not valid: got 10. It must be at most 9. Meaning: How many."],
  [{ count: 1.5 }, "a.count is not valid: got 1.5. It must be a whole number. Meaning: How many."],
  [{ count: "1" }, 'a.count is not valid: got "1". It must be a number. Meaning: How many.'],
  [{ path: 3 }, "a.path is not valid: got 3. It must be a text or a list."],
  [{ range: [1] }, "a.range is not valid: got [1]. It must have at least 2 items."],
  [{ list: [{ ratio: 0 }] }, "a.list.0.ratio is not valid: got 0. It must be more than 0."],
  [{ parts: { x: {} } }, "a.parts.x.weight is missing. It must be a number."],
  [{ parts: [] }, "a.parts is not valid: got []. It must be an object."],
])("%j is refused", (value, expected) => {
  expect(message(value)).toBe(expected);
});

test("the whole of a run file has no name before its keys", () => {
  expect(message({ cuont: 3 }, "")).toMatch(/^cuont is not an option/);
  expect(message([], "")).toBe("The run file is not valid: got []. It must be an object.");
});

test("a long value is cut in the message", () => {
  expect(message({ count: "x".repeat(1000) }).length).toBeLessThan(300);
});

test("the schema at a path is found through defaults, records, lists and the chosen type", () => {
  expect(schemasAt(schema, {}, ["parts", "anything", "weight"])).toHaveLength(1);
  expect(schemasAt(schema, { source: { type: "file" } }, ["source", "seed"])).toEqual([]);
  expect(schemasAt(schema, { source: { type: "env" } }, ["source", "seed"])).toHaveLength(1);
  expect(schemasAt(schema, {}, ["nothing"])).toEqual([]);
});
