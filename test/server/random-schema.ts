/** Random JSON schemas of the kind that structured output takes, for tests and benchmarks. */
import fc from "fast-check";
import type { JsonValue } from "../../src/flow/prompt.ts";

type SchemaValue = { readonly [name: string]: JsonValue };

const text = fc.oneof(
  fc.constantFrom("name", "kind", "city", "a b", "ü", 'q"t'),
  fc.string({ minLength: 1, maxLength: 6 }),
);

const range = (most: number) =>
  fc.tuple(fc.nat(most), fc.nat(most)).map(([one, other]) => [Math.min(one, other), Math.max(one, other)] as const);

const decimal = fc.integer({ min: -20_000, max: 20_000 }).map((value) => value / 100);

const strings = fc.oneof(
  fc.constant({ type: "string" }),
  range(8).map(([minLength, maxLength]) => ({ type: "string", minLength, maxLength })),
  fc
    .constantFrom("^[a-c]{2,4}$", "\\d+", "^(x|yz)*$", "é.?", "^[^a-z]{1,5}$")
    .map((pattern) => ({ type: "string", pattern })),
);

const numbers = fc.oneof(
  fc.constant({ type: "integer" }),
  fc.constant({ type: "number" }),
  fc
    .tuple(fc.integer({ min: -5000, max: 5000 }), fc.nat(3000))
    .map(([minimum, size]) => ({ type: "integer", minimum, maximum: minimum + size })),
  fc.integer({ min: -50, max: 50 }).map((exclusiveMinimum) => ({ type: "integer", exclusiveMinimum })),
  fc.tuple(decimal, fc.nat(500)).map(([minimum, size]) => ({ type: "number", minimum, maximum: minimum + size / 100 })),
  decimal.map((exclusiveMaximum) => ({ type: "number", exclusiveMaximum })),
  fc
    .tuple(decimal, fc.integer({ min: 1, max: 500 }))
    .map(([exclusiveMinimum, size]) => ({ type: "number", exclusiveMinimum, maximum: exclusiveMinimum + size / 10 })),
);

const values = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.constant({ b: [1, "x"] }));

const leaves = fc.oneof(
  strings,
  numbers,
  fc.constant({ type: "boolean" }),
  fc.constant({ type: "null" }),
  fc
    .uniqueArray(values, { minLength: 1, maxLength: 4, comparator: (a, b) => JSON.stringify(a) === JSON.stringify(b) })
    .map((found) => ({ enum: found as JsonValue[] })),
  values.map((found) => ({ const: found as JsonValue })),
  fc.constant({ type: ["string", "null"], maxLength: 5 }),
);

const { schema } = fc.letrec<{
  schema: SchemaValue;
  object: SchemaValue;
  array: SchemaValue;
  union: SchemaValue;
  map: SchemaValue;
}>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, depthSize: "small", withCrossShrink: true },
    leaves,
    tie("object"),
    tie("array"),
    tie("union"),
    tie("map"),
  ),
  object: fc
    .tuple(
      fc.uniqueArray(text, { maxLength: 4 }),
      fc.array(tie("schema"), { minLength: 4, maxLength: 4 }),
      fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
      fc.boolean(),
    )
    .map(([names, parts, isNeeded, isClosed]) => ({
      type: "object",
      properties: Object.fromEntries(names.map((name, index) => [name, parts[index] as JsonValue])),
      required: names.filter((_, index) => isNeeded[index]),
      ...((isClosed || names.length === 0) && { additionalProperties: false }),
    })),
  array: fc
    .tuple(tie("schema"), fc.option(range(3), { nil: undefined }), fc.array(tie("schema"), { maxLength: 2 }))
    .map(([items, counts, prefix]) => ({
      ...{ type: "array", items: items as JsonValue },
      ...(counts && { minItems: counts[0], maxItems: counts[1] + prefix.length }),
      ...(prefix.length > 0 && { prefixItems: prefix as JsonValue[] }),
    })),
  union: fc.array(tie("schema"), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf: anyOf as JsonValue[] })),
  map: fc
    .tuple(tie("schema"), fc.nat(3))
    .map(([one, maxProperties]) => ({ type: "object", additionalProperties: one as JsonValue, maxProperties })),
}));

/** These many schemas, the same for the same seed. */
export function randomSchemas(count: number, seed: number): readonly SchemaValue[] {
  return fc.sample(schema, { numRuns: count, seed });
}
