import { expect, test } from "vitest";
import type { JsonValue } from "../../flow/prompt.ts";
import { compileSchema } from "./validate.ts";

const node = { type: "object", properties: { v: { type: "number" }, next: { $ref: "#/$defs/n" } }, required: ["v"] };

/** Schemas with values that fit and values that do not. */
const table: readonly { schema: JsonValue; good: readonly JsonValue[]; bad: readonly JsonValue[] }[] = [
  { schema: true, good: [1, null], bad: [] },
  { schema: false, good: [], bad: [1, null] },
  { schema: { type: "integer" }, good: [1, 1e30], bad: [1.5, "1", null] },
  { schema: { type: ["string", "null"] }, good: ["a", null], bad: [1, []] },
  { schema: { type: "object" }, good: [{}], bad: [[], null] },
  { schema: { enum: ["a", 1, null, { b: [1] }] }, good: ["a", 1, null, { b: [1] }], bad: ["b", { b: [2] }] },
  { schema: { const: { a: 1 } }, good: [{ a: 1 }], bad: [{ a: 2 }, {}] },
  { schema: { minimum: 0, exclusiveMaximum: 1 }, good: [0, 0.5, "x"], bad: [-1, 1] },
  { schema: { exclusiveMinimum: 0, maximum: 1 }, good: [0.5, 1], bad: [0, 1.1] },
  { schema: { multipleOf: 0.1 }, good: [0.3, 1], bad: [0.35] },
  { schema: { minLength: 2, maxLength: 3, pattern: "^a" }, good: ["ab", "a😀"], bad: ["a", "abcd", "ba"] },
  {
    schema: { minItems: 1, maxItems: 2, uniqueItems: true },
    good: [[1], [1, 2]],
    bad: [[], [1, 2, 3], [{ a: 1 }, { a: 1 }]],
  },
  { schema: { items: { type: "number" } }, good: [[], [1]], bad: [["a"]] },
  {
    schema: { prefixItems: [{ type: "number" }], items: { type: "string" } },
    good: [[1, "a"], []],
    bad: [["a"], [1, 2]],
  },
  { schema: { prefixItems: [{ type: "number" }], items: false }, good: [[1]], bad: [[1, 2]] },
  { schema: { contains: { type: "number" } }, good: [["a", 1]], bad: [["a"], []] },
  { schema: { properties: { a: { type: "number" } }, required: ["a"] }, good: [{ a: 1 }, 3], bad: [{}, { a: "x" }] },
  { schema: { required: ["toString"] }, good: [{ toString: 1 }], bad: [{}] },
  { schema: { properties: { a: {} }, additionalProperties: false }, good: [{ a: 1 }], bad: [{ b: 1 }] },
  { schema: { additionalProperties: { type: "number" } }, good: [{ a: 1 }], bad: [{ a: "x" }] },
  {
    schema: { patternProperties: { "^x": { type: "number" } }, additionalProperties: false },
    good: [{ xa: 1 }],
    bad: [{ xa: "s" }, { y: 1 }],
  },
  { schema: { propertyNames: { maxLength: 1 } }, good: [{ a: 1 }], bad: [{ ab: 1 }] },
  { schema: { minProperties: 1, maxProperties: 2 }, good: [{ a: 1 }], bad: [{}, { a: 1, b: 2, c: 3 }] },
  { schema: { dependentRequired: { a: ["b"] } }, good: [{ a: 1, b: 1 }, { b: 1 }], bad: [{ a: 1 }] },
  { schema: { allOf: [{ required: ["a"] }, { required: ["b"] }] }, good: [{ a: 1, b: 2 }], bad: [{ a: 1 }] },
  { schema: { anyOf: [{ type: "string" }, { minimum: 3 }] }, good: ["a", 3], bad: [2] },
  { schema: { oneOf: [{ multipleOf: 3 }, { multipleOf: 5 }] }, good: [3, 5], bad: [15, 2] },
  { schema: { not: { type: "string" } }, good: [1], bad: ["a"] },
  {
    schema: JSON.parse('{ "if": { "type": "string" }, "then": { "minLength": 2 }, "else": { "type": "number" } }'),
    good: ["ab", 1],
    bad: ["a", true],
  },
  { schema: { $defs: { n: node }, $ref: "#/$defs/n" }, good: [{ v: 1, next: { v: 2 } }], bad: [{ v: 1, next: {} }] },
  { schema: { type: "string", format: "date", description: "a day" }, good: ["2020-01-01", "x"], bad: [1] },
];

test.each(table)("$schema", ({ schema, good, bad }) => {
  const validate = compileSchema(schema);
  expect(good.filter((value) => validate(value) !== undefined)).toEqual([]);
  expect(bad.filter((value) => validate(value) === undefined)).toEqual([]);
});

test("a problem is told with its place", () => {
  const validate = compileSchema({ properties: { list: { items: { required: ["id"] } } } });
  expect(validate({ list: [{ id: 1 }, {}] })).toBe('$.list.1 lacks "id"');
});

test("a schema that refers to itself without end, and a value without end, are refused in time", () => {
  expect(compileSchema({ $ref: "#" })(1)).toBe("$ is nested more than 256 deep");
  let deep: JsonValue = 1;
  for (let i = 0; i < 10_000; i++) deep = [deep];
  expect(compileSchema({ items: { $ref: "#" } })(deep)).toContain("is nested more than 256 deep");
});

test.each([
  { schema: { properties: { a: { minimun: 1 } } }, message: '#/properties/a has the keyword "minimun"' },
  { schema: { allOf: ["a"] }, message: '#/allOf/0 must be a JSON Schema: got "a"' },
  { schema: 3, message: "# must be a JSON Schema: got 3" },
])("a schema that is none is refused: $schema", ({ schema, message }) => {
  expect(() => compileSchema(schema as JsonValue)).toThrow(message);
});

test("a reference that leads nowhere is an error", () => {
  expect(() => compileSchema({ $ref: "#/$defs/none" })(1)).toThrow('$ref "#/$defs/none" leads nowhere');
  expect(() => compileSchema({ $ref: "https://example.com/schema" })(1)).toThrow("leads nowhere");
});
