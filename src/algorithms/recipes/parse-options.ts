/** From what a person wrote to the options of a recipe, or an error that names the key. */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";

/** Parses options. `path` is where they stand in the run file; messages start with it. */
export function parseOptions<Schema extends z.ZodType>(schema: Schema, value: unknown, path: string): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const message =
    issue?.code === "unrecognized_keys" ? unknownKey(schema, issue, path) : wrongValue(issue, value, path);
  throw new RerollError("INVALID_OPTION", message, { path, issues: parsed.error.issues });
}

function unknownKey(schema: z.ZodType, issue: z.core.$ZodIssueUnrecognizedKeys, path: string): string {
  const key = issue.keys[0] ?? "";
  const known = keysAt(z.toJSONSchema(schema, { io: "input" }), issue.path);
  const nearest = nearestKey(key, known);
  const hint = nearest === null ? "" : ` Did you mean ${nearest}?`;
  return `${[path, ...issue.path, key].join(".")} is not an option.${hint} Known are: ${known.join(", ")}.`;
}

function wrongValue(issue: z.core.$ZodIssue | undefined, value: unknown, path: string): string {
  const name = [path, ...(issue?.path ?? [])].join(".");
  const got = JSON.stringify(valueAt(value, issue?.path ?? []));
  return `${name} is not valid: got ${got}. ${issue?.message ?? "It does not fit the schema"}.`;
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>((at, key) => (isObject(at) ? at[String(key)] : undefined), value);
}

/** The keys that an object may have at a path, over all of its variants. */
function keysAt(schema: unknown, path: readonly PropertyKey[]): string[] {
  if (!isObject(schema)) return [];
  const variants = [schema.anyOf, schema.oneOf].filter(Array.isArray).flat();
  const properties = isObject(schema.properties) ? schema.properties : {};
  const [first, ...rest] = path;
  const own = first === undefined ? Object.keys(properties) : keysAt(properties[String(first)], rest);
  return [...new Set([...own, ...variants.flatMap((variant) => keysAt(variant, path))])];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The known key that needs the fewest edits, if they are at most half of its letters. */
function nearestKey(key: string, known: readonly string[]): string | null {
  const [nearest] = known
    .map((name) => ({ name, edits: editDistance(key.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= name.length / 2)
    .toSorted((a, b) => a.edits - b.edits);
  return nearest?.name ?? null;
}

function editDistance(from: string, to: string): number {
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replaced = previous[column - 1]! + (from[row - 1] === to[column - 1] ? 0 : 1);
      current.push(Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1));
    }
    previous = current;
  }
  return previous[to.length]!;
}
