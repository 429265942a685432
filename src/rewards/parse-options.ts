/** From what a person wrote for a reward to its options, or an error that names the key. */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import { nearestName } from "../models/files/nearest-name.ts";

/** Parses options. `path` is where they stand in the run file; messages start with it. */
export function parseOptions<Schema extends z.ZodType>(schema: Schema, value: unknown, path: string): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const message = issue.code === "unrecognized_keys" ? unknownKey(schema, issue, path) : wrongValue(issue, value, path);
  throw new RerollError("INVALID_OPTION", message, { path, issues: parsed.error.issues });
}

function unknownKey(schema: z.ZodType, issue: z.core.$ZodIssueUnrecognizedKeys, path: string): string {
  const key = issue.keys[0] ?? "";
  const known = keysAt(z.toJSONSchema(schema, { io: "input" }), issue.path);
  const nearest = nearestName(key, known);
  const hint = nearest === undefined ? "" : ` Did you mean ${nearest}?`;
  return `${[path, ...issue.path, key].join(".")} is not an option.${hint} Known are: ${known.join(", ")}.`;
}

function wrongValue(issue: z.core.$ZodIssue, value: unknown, path: string): string {
  const got = issue.path.reduce<unknown>((at, key) => (isObject(at) ? at[String(key)] : undefined), value);
  const shown = got === undefined ? "nothing" : JSON.stringify(got);
  return `${[path, ...issue.path].join(".")} is not valid: got ${shown}. ${issue.message}.`;
}

/** The keys that an object may have at a path, over all of its variants. */
function keysAt(schema: unknown, path: readonly PropertyKey[]): string[] {
  if (!isObject(schema)) return [];
  const variants = [schema.anyOf, schema.oneOf].filter(Array.isArray).flat();
  const properties = isObject(schema.properties) ? schema.properties : {};
  const [first, ...rest] = path;
  const own = first === undefined ? Object.keys(properties) : keysAt(properties[String(first)] ?? schema.items, rest);
  return [...new Set([...own, ...variants.flatMap((variant) => keysAt(variant, path))])];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
