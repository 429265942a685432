/**
 * Validates JSON against a JSON Schema.
 *
 * Comes in: a schema and a value. Goes out: the first problem with its place, or undefined. A keyword that is not known
 * is refused, never ignored: a schema that asks for more than is checked would reward wrong replies. `format` is a note
 * only, as the specification has it by default. `$ref` stays within the schema.
 */

import { nearestName } from "../../errors/nearest-name.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { isObject, keywords, silentKeywords } from "./keywords.ts";

/** A schema that has been looked through, ready for many values. */
type Validator = (value: JsonValue) => string | undefined;

/** Looks a schema through and gives its validator. */
export function compileSchema(root: JsonValue): Validator {
  expectSchema(root, "#");
  return (value) => validateAt(root, root, value, "$", 0);
}

function validateAt(
  root: JsonValue,
  schema: JsonValue,
  value: JsonValue,
  path: string,
  depth: number,
): string | undefined {
  if (schema === true) return undefined;
  if (schema === false || !isObject(schema)) return `${path} is not allowed`;
  if (depth > maxDepth) return `${path} is nested more than ${maxDepth} deep`;
  for (const [name, asked] of Object.entries(schema)) {
    if (!Object.hasOwn(keywords, name)) continue;
    const problem = keywords[name]?.({
      value,
      asked,
      schema,
      check: (inner, part, key) =>
        validateAt(root, inner, part, key === undefined ? path : `${path}.${key}`, depth + 1),
      resolve: (reference) => resolveReference(root, reference),
    });
    if (problem !== undefined) return problem.startsWith("$") ? problem : `${path} ${problem}`;
  }
  return undefined;
}

/** Deep enough for any schema a person writes, and far from the end of the stack. */
const maxDepth = 256;

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const withSchema = ["items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"];
const withSchemas = ["allOf", "anyOf", "oneOf", "prefixItems"];
const withNamedSchemas = ["properties", "patternProperties", "$defs", "definitions"];

function expectSchema(schema: JsonValue | undefined, path: string): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) {
    throw new RerollError(
      "INVALID_SCHEMA",
      `${path} must be a JSON Schema: got ${JSON.stringify(schema)?.slice(0, 100)}.`,
    );
  }
  for (const [name, inner] of Object.entries(schema)) {
    const at = `${path}/${name}`;
    if (!Object.hasOwn(keywords, name) && !silentKeywords.has(name)) throw unknownKeyword(name, path);
    if (withSchema.includes(name)) expectSchema(inner, at);
    if (withSchemas.includes(name) && Array.isArray(inner))
      inner.forEach((one, i) => void expectSchema(one, `${at}/${i}`));
    if (withNamedSchemas.includes(name) && isObject(inner)) {
      for (const [key, one] of Object.entries(inner)) expectSchema(one, `${at}/${key}`);
    }
  }
}

function unknownKeyword(name: string, path: string): RerollError {
  const nearest = nearestName(name, [...Object.keys(keywords), ...silentKeywords]);
  const hint = nearest === undefined ? "" : ` Did you mean "${nearest}"?`;
  return new RerollError(
    "INVALID_SCHEMA",
    `${path} has the keyword "${name}", which is not checked here.${hint} Leave it out.`,
    {
      name,
      path,
    },
  );
}

function resolveReference(root: JsonValue, reference: string): JsonValue {
  const steps = reference
    .replace(/^#\/?/, "")
    .split("/")
    .filter((step) => step !== "");
  const found = reference.startsWith("#")
    ? steps.reduce<JsonValue | undefined>((at, step) => {
        const key = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
        return isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
      }, root)
    : undefined;
  if (found !== undefined) return found;
  throw new RerollError(
    "INVALID_SCHEMA",
    `$ref "${reference}" leads nowhere. It must point into the schema, such as "#/$defs/item".`,
  );
}
