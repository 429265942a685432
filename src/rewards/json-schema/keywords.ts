/**
 * What each keyword of JSON Schema (draft 2020-12) asks of a value.
 *
 * A check gets the value, what stands at its keyword and the schema around it, and gives the first problem as text, or
 * undefined. A keyword says nothing about values of other types than its own, as the specification has it.
 */
import { isDeepStrictEqual } from "node:util";
import type { JsonValue } from "../../flow/prompt.ts";

type JsonObject = { readonly [key: string]: JsonValue };

/** One value in its place. `check` is the whole validator, for schemas inside of schemas. */
interface KeywordInput {
  readonly value: JsonValue;
  /** What stands at the keyword. */
  readonly asked: JsonValue;
  readonly schema: JsonObject;
  /** The problem of a value that is `key` steps inside of this one, or this one itself. */
  readonly check: (schema: JsonValue, value: JsonValue, key?: string | number) => string | undefined;
  readonly resolve: (reference: string) => JsonValue;
}

type Keyword = (input: KeywordInput) => string | undefined;

/** Keywords that say something about a value. */
export const keywords: Readonly<Record<string, Keyword>> = {
  $ref: ({ value, asked, check, resolve }) => check(resolve(String(asked)), value),
  type: ({ value, asked }) =>
    listOf(asked).some((type) => isOfType(value, String(type)))
      ? undefined
      : `is not of type ${listOf(asked).join(" or ")}`,
  enum: ({ value, asked }) =>
    listOf(asked).some((option) => isDeepStrictEqual(option, value))
      ? undefined
      : `is none of ${JSON.stringify(asked)}`,
  const: ({ value, asked }) => (isDeepStrictEqual(asked, value) ? undefined : `is not ${JSON.stringify(asked)}`),

  minimum: numeric((value, limit) => value >= limit, "is less than"),
  maximum: numeric((value, limit) => value <= limit, "is more than"),
  exclusiveMinimum: numeric((value, limit) => value > limit, "is not more than"),
  exclusiveMaximum: numeric((value, limit) => value < limit, "is not less than"),
  multipleOf: numeric(
    (value, step) => Number.isInteger(Number((value / step).toPrecision(15))),
    "is not a multiple of",
  ),

  minLength: sized((value) => (typeof value === "string" ? [...value].length : undefined), "min", "characters"),
  maxLength: sized((value) => (typeof value === "string" ? [...value].length : undefined), "max", "characters"),
  pattern: ({ value, asked }) =>
    typeof value !== "string" || new RegExp(String(asked), "u").test(value)
      ? undefined
      : `does not match ${String(asked)}`,

  minItems: sized((value) => (Array.isArray(value) ? value.length : undefined), "min", "items"),
  maxItems: sized((value) => (Array.isArray(value) ? value.length : undefined), "max", "items"),
  uniqueItems: ({ value, asked }) =>
    asked === true && Array.isArray(value) && new Set(value.map(canonicalText)).size < value.length
      ? "has an item twice"
      : undefined,
  prefixItems: ({ value, asked, check }) =>
    Array.isArray(value)
      ? first(listOf(asked).slice(0, value.length), (schema, i) => check(schema, value[i]!, i))
      : undefined,
  items: ({ value, asked, schema, check }) => {
    if (!Array.isArray(value)) return undefined;
    const start = schema.prefixItems === undefined ? 0 : listOf(schema.prefixItems).length;
    return first(value.slice(start), (item, i) => check(asked, item, start + i));
  },
  contains: ({ value, asked, check }) =>
    !Array.isArray(value) || value.some((item) => check(asked, item) === undefined)
      ? undefined
      : "has no item as asked",

  required: ({ value, asked }) => {
    const missing = isObject(value) ? listOf(asked).find((key) => !Object.hasOwn(value, String(key))) : undefined;
    return missing === undefined ? undefined : `lacks "${String(missing)}"`;
  },
  properties: ({ value, asked, check }) =>
    isObject(value) && isObject(asked)
      ? first(
          Object.entries(asked).filter(([key]) => Object.hasOwn(value, key)),
          ([key, schema]) => check(schema, value[key]!, key),
        )
      : undefined,
  patternProperties: ({ value, asked, check }) =>
    isObject(value) && isObject(asked)
      ? first(Object.entries(asked), ([pattern, schema]) =>
          first(
            Object.entries(value).filter(([key]) => new RegExp(pattern, "u").test(key)),
            ([key, item]) => check(schema, item, key),
          ),
        )
      : undefined,
  additionalProperties: ({ value, asked, schema, check }) =>
    isObject(value)
      ? first(
          Object.entries(value).filter(([key]) => !isNamed(schema, key)),
          ([key, item]) => (asked === false ? `has "${key}", which is not allowed` : check(asked, item, key)),
        )
      : undefined,
  propertyNames: ({ value, asked, check }) =>
    isObject(value) ? first(Object.keys(value), (key) => check(asked, key, key)) : undefined,
  minProperties: sized((value) => (isObject(value) ? Object.keys(value).length : undefined), "min", "properties"),
  maxProperties: sized((value) => (isObject(value) ? Object.keys(value).length : undefined), "max", "properties"),
  dependentRequired: ({ value, asked }) =>
    isObject(value) && isObject(asked)
      ? first(
          Object.entries(asked).filter(([key]) => Object.hasOwn(value, key)),
          ([key, needed]) => {
            const missing = listOf(needed).find((other) => !Object.hasOwn(value, String(other)));
            return missing === undefined ? undefined : `has "${key}" but lacks "${String(missing)}"`;
          },
        )
      : undefined,

  allOf: ({ value, asked, check }) => first(listOf(asked), (schema) => check(schema, value)),
  anyOf: ({ value, asked, check }) =>
    listOf(asked).some((schema) => check(schema, value) === undefined) ? undefined : "fits none of anyOf",
  oneOf: ({ value, asked, check }) => {
    const numFits = listOf(asked).filter((schema) => check(schema, value) === undefined).length;
    return numFits === 1 ? undefined : `fits ${numFits} of oneOf`;
  },
  not: ({ value, asked, check }) => (check(asked, value) === undefined ? "fits what is not allowed" : undefined),
  if: ({ value, asked, schema, check }) => {
    const branch = check(asked, value) === undefined ? schema.then : schema.else;
    return branch === undefined ? undefined : check(branch, value);
  },
};

/** Keywords that ask nothing by themselves: notes, places to refer to, and the branches of `if`. */
export const silentKeywords: ReadonlySet<string> = new Set(
  "$schema $id $anchor $comment $defs definitions title description default examples deprecated readOnly writeOnly format then else".split(
    " ",
  ),
);

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isOfType(value: JsonValue, type: string): boolean {
  if (type === "integer") return typeof value === "number" && Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isObject(value);
  return type === "null" ? value === null : typeof value === type;
}

/** The same text for equal values: the keys of objects in one order. */
function canonicalText(value: JsonValue): string {
  return JSON.stringify(value, (_, part: JsonValue) =>
    isObject(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
}

function isNamed(schema: JsonObject, key: string): boolean {
  const { properties, patternProperties } = schema;
  if (isObject(properties) && Object.hasOwn(properties, key)) return true;
  return (
    isObject(patternProperties) && Object.keys(patternProperties).some((pattern) => new RegExp(pattern, "u").test(key))
  );
}

function numeric(holds: (value: number, limit: number) => boolean, problem: string): Keyword {
  return ({ value, asked }) =>
    typeof value !== "number" || holds(value, Number(asked)) ? undefined : `${problem} ${Number(asked)}`;
}

function sized(sizeOf: (value: JsonValue) => number | undefined, bound: "min" | "max", what: string): Keyword {
  return ({ value, asked }) => {
    const size = sizeOf(value);
    const limit = Number(asked);
    if (size === undefined || (bound === "min" ? size >= limit : size <= limit)) return undefined;
    return `has ${size} ${what}, ${bound === "min" ? "fewer" : "more"} than ${limit}`;
  };
}

function first<Item>(
  items: readonly Item[],
  problemOf: (item: Item, index: number) => string | undefined,
): string | undefined {
  for (const [i, item] of items.entries()) {
    const problem = problemOf(item, i);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function listOf(value: JsonValue): readonly JsonValue[] {
  return Array.isArray(value) ? value : [value];
}
