/**
 * From what a person wrote to options, or one error about one key: what it got, what is allowed, and the nearest known key.
 */
import { z } from "zod";
import { didYouMean } from "./nearest-name.ts";
import { redactText, SECRET } from "./redact-text.ts";
import { RerollError } from "./reroll-error.ts";

/** Parses options. `path` is where they stand in the run file, "" for the whole of it; messages start with it. */
export function parseOptions<Schema extends z.ZodType>(schema: Schema, value: unknown, path: string): z.output<Schema> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { issues } = parsed.error;
  // A misspelled key also makes the right one missing: the spelling is the thing to say.
  const issue = issues.find(({ code }) => code === "unrecognized_keys") ?? issues[0]!;
  const message =
    issue.code === "unrecognized_keys"
      ? unknownKey(schema, value, issue, path)
      : wrongValue(schema, value, issue, path);
  throw new RerollError("INVALID_OPTION", message, { path, issues });
}

/** The schemas that may stand at a path, without the wrappers that make them optional; of a tagged choice, the chosen ones. */
export function schemasAt(schema: z.core.$ZodType, value: unknown, path: readonly PropertyKey[]): z.core.$ZodType[] {
  const [key, ...rest] = path;
  if (schema instanceof z.ZodUnion) {
    return schema.options.filter((option) => canBe(option, value)).flatMap((option) => schemasAt(option, value, path));
  }
  const inner = innerOf(schema, key);
  if (inner === "wrapped") return schemasAt((schema as unknown as Wrapper).unwrap(), value, path);
  if (key === undefined) return [schema];
  return inner === undefined ? [] : schemasAt(inner, isObject(value) ? value[key] : undefined, rest);
}

interface Wrapper {
  unwrap(): z.core.$ZodType;
}

function innerOf(schema: z.core.$ZodType, key: PropertyKey | undefined): z.core.$ZodType | "wrapped" | undefined {
  if (schema instanceof z.ZodObject) return key === undefined ? undefined : schema.shape[String(key)];
  if (schema instanceof z.ZodArray) return schema.element;
  if (schema instanceof z.ZodRecord) return schema.valueType;
  if (schema instanceof z.ZodTuple) return schema.def.items[Number(key)];
  return "unwrap" in schema ? "wrapped" : undefined;
}

function canBe(option: z.core.$ZodType, value: unknown): boolean {
  const tag = option instanceof z.ZodObject ? option.shape.type : undefined;
  const values = tag?._zod.values;
  return values === undefined || !isObject(value) || values.has(value.type as z.core.util.Primitive);
}

function unknownKey(schema: z.ZodType, value: unknown, issue: z.core.$ZodIssueUnrecognizedKeys, path: string): string {
  const key = issue.keys[0]!;
  const objects = schemasAt(schema, value, issue.path).filter((one) => one instanceof z.ZodObject);
  const known = [...new Set(objects.flatMap(({ shape }) => Object.keys(shape)))];
  return `${nameOf(path, [...issue.path, key])} is not an option.${didYouMean(key, known)} Known are: ${known.join(", ")}.`;
}

function wrongValue(schema: z.ZodType, value: unknown, issue: z.core.$ZodIssue, path: string): string {
  const got = issue.path.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value);
  const name = nameOf(path, issue.path) || "The run file";
  const choices = choicesOf(issue);
  if (choices !== undefined) {
    const hint = typeof got === "string" ? didYouMean(got, choices) : "";
    return `${name} must be one of ${choices.join(", ")}: got ${show(got)}.${hint}`;
  }
  const meaning = meaningOf(schema, value, issue.path);
  if (got === undefined) return `${name} is missing. ${allowedBy(issue)}.${meaning}`;
  const shown = isSecret(schema, value, issue.path) ? SECRET : show(got);
  return `${name} is not valid: got ${shown}. ${allowedBy(issue)}.${meaning}`;
}

/** Whether a secret belongs at a path, also where something else was written there. */
function isSecret(schema: z.ZodType, value: unknown, path: readonly PropertyKey[]): boolean {
  return schemasAt(schema, value, path).some((one) => one instanceof z.ZodType && one.meta()?.secret !== undefined);
}

/** The names that a key chooses from. */
function choicesOf(issue: z.core.$ZodIssue): string[] | undefined {
  if (issue.code === "invalid_value" && issue.values.length > 1) return issue.values.map(String);
  if (issue.code !== "invalid_union" || issue.discriminator === undefined || !("options" in issue)) return undefined;
  return (issue.options ?? []).filter((option) => option !== undefined).map(String);
}

const TYPES: Readonly<Record<string, string>> = {
  number: "a number",
  int: "a whole number",
  string: "a text",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "a list",
  tuple: "a list of fixed length",
  null: "null",
};

/** What may stand there, in words. */
function allowedBy(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `It must be ${TYPES[issue.expected] ?? issue.expected}`;
    case "too_small":
      return `It must ${boundOf(issue.origin, issue.inclusive === false ? "more than" : "at least", issue.minimum)}`;
    case "too_big":
      return `It must ${boundOf(issue.origin, issue.inclusive === false ? "less than" : "at most", issue.maximum)}`;
    case "invalid_value":
      return `It must be ${issue.values.map(show).join(" or ")}`;
    case "invalid_union": {
      const ways = issue.errors.flatMap(([first]) => (first === undefined ? [] : [allowedBy(first)]));
      return ways.length === 0 ? issue.message : [ways[0], ...ways.slice(1).map(withoutSubject)].join(" or ");
    }
    default:
      return `${issue.message.charAt(0).toUpperCase()}${issue.message.slice(1)}`.replace(/\.$/, "");
  }
}

function boundOf(origin: string, relation: string, bound: number | bigint): string {
  if (origin === "string") return `have ${relation} ${bound} characters`;
  if (origin === "array" || origin === "set") return `have ${relation} ${bound} items`;
  return `be ${relation} ${bound}`;
}

function withoutSubject(allowed: string): string {
  return allowed.replace(/^It must (be )?/, "");
}

/** The description of a key, as a sentence of its own. */
function meaningOf(schema: z.ZodType, value: unknown, path: readonly PropertyKey[]): string {
  const key = path.at(-1);
  const owners = schemasAt(schema, value, path.slice(0, -1));
  const found = owners.flatMap((owner) => {
    const inner = owner instanceof z.ZodObject && key !== undefined ? owner.shape[String(key)] : undefined;
    return inner instanceof z.ZodType && inner.description !== undefined ? [inner.description] : [];
  })[0];
  return found === undefined ? "" : ` Meaning: ${found}`;
}

/** As a person writes it: a key of the run file, or of a flag that takes key=value. */
function nameOf(path: string, inner: readonly PropertyKey[]): string {
  if (path.startsWith("--")) return [path, inner.map(String).join(".")].join(" ").trim();
  return [...(path === "" ? [] : [path]), ...inner.map(String)].join(".");
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = typeof value === "function" ? "a function" : (JSON.stringify(value, withoutTexts) ?? String(value));
  return redactText(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}

/** Texts inside an object are left out: what did not fit its schema may hold a secret anywhere. */
function withoutTexts(this: unknown, key: string, value: unknown): unknown {
  const isInside = !Array.isArray(this) && key !== "" && key !== "type";
  if (isInside && typeof value === "string") return "...";
  return isInside && Array.isArray(value) ? value.map((item) => (typeof item === "string" ? "..." : item)) : value;
}

function isObject(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === "object" && value !== null;
}
