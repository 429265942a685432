/**
 * The building blocks of request schemas: each says in words what it allows, for the error message.
 *
 * A field that is null counts as absent, as in OpenAI's API.
 */
import { z } from "zod";
import { requestError } from "./openai-errors.ts";

export const wholeNumber = (allowed: string, min: number, max = Number.MAX_SAFE_INTEGER) =>
  z.custom<number>((value) => Number.isSafeInteger(value) && isWithin(value, min, max), allowed);

/** Counts of the API are 32-bit numbers. */
export const MAX_COUNT = 2 ** 31 - 1;

export const count = wholeNumber(`a whole number of 1 or more, up to ${MAX_COUNT}`, 1, MAX_COUNT);

export const numberBetween = (allowed: string, min: number, max = Number.MAX_VALUE) =>
  z.custom<number>((value) => isWithin(value, min, max), allowed);

export const flag = z.custom<boolean>((value) => typeof value === "boolean", "true or false");

export const text = z.custom<string>((value) => typeof value === "string", "a text");

/** A template takes tens of microseconds for each, and nobody else is served meanwhile. */
const MAX_MESSAGES = 4096;
const MAX_TOOLS = 1024;

/** The messages of a conversation, in whatever form an API has them. */
export const messageList = <Message extends z.ZodType>(message: Message) =>
  z
    .array(message, "a list of messages")
    .min(1, "a list of at least one message")
    .max(MAX_MESSAGES, `a list of at most ${MAX_MESSAGES} messages`);

/** The tools that a model may call. */
export const toolList = <Tool extends z.ZodType>(tool: Tool) =>
  z.array(tool, "a list of tools").max(MAX_TOOLS, `a list of at most ${MAX_TOOLS} tools`);

export const tokenIds = (allowed: string, maxLength = Infinity) =>
  z.custom<readonly number[]>((value) => isTokenIds(value) && value.length <= maxLength, allowed);

/** Reads a request body. Throws an error that names the first field that is wrong, what it is, and what is allowed. */
export function readFields<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw requestError("body", "The request body must be a JSON object.");
  }
  const present = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
  const result = schema.safeParse(present);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = issue?.path ?? [];
  const name = pathText(path);
  throw requestError(name, `${name} must be ${issue?.message}: got ${shown(valueAt(present, path))}.`);
}

/** The fields of a body that a schema does not have. They are left unused, and the client is told which. */
export function unknownFields(schema: z.ZodObject, body: object): readonly string[] {
  return Object.keys(body).filter((name) => !Object.hasOwn(schema.shape, name));
}

export function isTokenIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0);
}

/** False for what is no number, and for NaN. */
export function isWithin(value: unknown, min: number, max: number): boolean {
  return typeof value === "number" && value >= min && value <= max;
}

function pathText(path: readonly PropertyKey[]): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`));
  return steps.join("").replace(/^\./, "") || "body";
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let found = value;
  for (const step of path) found = typeof found === "object" && found !== null ? Reflect.get(found, step) : undefined;
  return found;
}

function shown(value: unknown): string {
  const json = value === undefined ? "nothing" : JSON.stringify(value);
  return json.length > 80 ? `${json.slice(0, 80)}...` : json;
}
