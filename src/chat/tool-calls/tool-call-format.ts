/**
 * How a family of models writes tool calls: where one begins and ends in the text of a reply, how it is read, and how a forced one is
 * framed. Each format is a file of this folder and a line in `table.ts`.
 */
import { jsonDepth, MAX_JSON_DEPTH } from "../../errors/json-depth.ts";

/** A call as it was read; the arguments are JSON. */
export interface ParsedCall {
  readonly name: string;
  readonly arguments: string;
}

export interface ToolCallFormat {
  /** Whether a chat template writes calls this way. */
  readonly isIn: (template: string) => boolean;
  /** The text that begins a block of calls. */
  readonly open: string;
  /** The text that ends it; null where it reaches to the end of the reply. */
  readonly close: string | null;
  /** Whether only a reply that begins with `open` calls: where it is a character that texts use too. */
  readonly isAtStart?: boolean;
  /** Tokens of the vocabulary that belong to the format. Where they are special, they are read all the same. */
  readonly marks: readonly string[];
  /** The calls between `open` and `close`; undefined where they cannot be read. `typesOf` gives the JSON Schema of a tool's argument. */
  readonly parse: (content: string, typesOf: ArgumentTypes) => readonly ParsedCall[] | undefined;
  /** The text before and after the JSON arguments of a forced call, and between two calls; null between them where there can be only one. */
  readonly frame: {
    readonly begin: (name: string) => string;
    readonly end: string;
    readonly between: string | null;
    /** What stands before the first call and behind the last. */
    readonly around?: readonly [string, string];
  };
}

/** The schema of an argument, undefined where nothing is known. */
export type ArgumentTypes = (tool: string, argument: string) => unknown;

/** A JSON object with a name and arguments, under the key that the format uses. */
export function callOfJson(value: unknown): ParsedCall | undefined {
  if (typeof value !== "object" || value === null || !("name" in value) || typeof value.name !== "string")
    return undefined;
  const { name, arguments: given, parameters } = value as { name: string; arguments?: unknown; parameters?: unknown };
  const chosen = given ?? parameters ?? {};
  return { name, arguments: typeof chosen === "string" ? chosen : JSON.stringify(chosen) };
}

/** Undefined where the text is no JSON: a policy under training writes broken calls all the time, and that is no error. */
export function parseJson(text: string): unknown {
  if (jsonDepth(text) > MAX_JSON_DEPTH) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The calls of a list, or undefined if one of them is none. */
export function allCalls(calls: readonly (ParsedCall | undefined)[]): readonly ParsedCall[] | undefined {
  const read = calls.filter((call) => call !== undefined);
  return read.length > 0 && read.length === calls.length ? read : undefined;
}
