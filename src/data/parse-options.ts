/** From what a person wrote to the options of a source, or an error that names the key and the nearest known one. */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";

/** Parses options. `path` is where they stand in the run file; messages start with it. */
export function parseOptions<Schema extends z.ZodType>(schema: Schema, value: unknown, path: string): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const message =
    issue.code === "unrecognized_keys" ? unknownKey(schema, value, issue, path) : wrong(issue, value, path);
  throw new RerollError("INVALID_OPTION", message, { path, issues: parsed.error.issues });
}

function unknownKey(schema: z.ZodType, value: unknown, issue: z.core.$ZodIssueUnrecognizedKeys, path: string): string {
  const key = issue.keys[0]!;
  const known = keysAt(schema, value, issue.path);
  const nearest = nearestName(key, known);
  const hint = nearest === null ? "" : ` Did you mean ${nearest}?`;
  return `${[path, ...issue.path, key].join(".")} is not an option.${hint} Known are: ${known.join(", ")}.`;
}

function wrong(issue: z.core.$ZodIssue, value: unknown, path: string): string {
  const got = issue.path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value);
  const name = [path, ...issue.path].join(".");
  if (issue.code !== "invalid_union" || issue.discriminator === undefined || !("options" in issue)) {
    return `${name} is not valid: got ${JSON.stringify(got)}. ${issue.message}.`;
  }
  const known = (issue.options ?? []).map(String);
  const nearest = typeof got === "string" ? nearestName(got, known) : null;
  const hint = nearest === null ? "" : ` Did you mean ${nearest}?`;
  return `${name} must be one of ${known.join(", ")}: got ${JSON.stringify(got)}.${hint}`;
}

/** The keys that the object at a path may have; of a tagged choice, those of the one that was chosen. */
function keysAt(schema: z.core.$ZodType, value: unknown, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) {
    return keysAt(schema.unwrap(), value, path);
  }
  if (schema instanceof z.ZodUnion) {
    const fitting = schema.options.filter((option) => canBe(option, value));
    return [...new Set(fitting.flatMap((option) => keysAt(option, value, path)))];
  }
  const [key, ...rest] = path;
  if (schema instanceof z.ZodObject) {
    const shape: Readonly<Record<string, z.core.$ZodType>> = schema.shape;
    if (key === undefined) return Object.keys(shape);
    const inner = shape[String(key)];
    return inner && isObject(value) ? keysAt(inner, value[key], rest) : [];
  }
  if (schema instanceof z.ZodArray && key !== undefined && isObject(value))
    return keysAt(schema.element, value[key], rest);
  return [];
}

function canBe(option: z.core.$ZodType, value: unknown): boolean {
  const tag = option instanceof z.ZodObject ? option.shape.type : undefined;
  return !(tag instanceof z.ZodLiteral) || !isObject(value) || tag.value === value.type;
}

function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}

/** The known name that needs the fewest edits, if they are at most half of its letters. */
function nearestName(name: string, known: readonly string[]): string | null {
  const [nearest] = known
    .map((other) => ({ other, edits: editDistance(name.toLowerCase(), other.toLowerCase()) }))
    .filter(({ other, edits }) => edits <= other.length / 2)
    .toSorted((a, b) => a.edits - b.edits);
  return nearest?.other ?? null;
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
