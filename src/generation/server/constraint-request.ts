/**
 * What a request asks of the form of its reply, in the words of each API, as one constraint.
 *
 * Formats and forced tool calls are OpenAI's; `structured_outputs` and `guided_*` are vLLM's names for formats.
 */
import { z } from "zod";
import type { ChatTool } from "../../flow/chat-message.ts";
import { type ConstrainedTool, type Constraint, grammarOf } from "../constraint/constraint.ts";
import { requestError } from "./openai-errors.ts";
import { flag, text } from "./request-fields.ts";

const texts = z.array(text, "a list of texts");
const schema = z.custom<unknown>((value) => typeof value === "object" && value !== null, "a JSON schema");

/** A format as chat completions and completions have it. */
export const responseFormat = z.discriminatedUnion(
  "type",
  [
    z.looseObject({ type: z.literal("text") }),
    z.looseObject({ type: z.literal("json_object") }),
    z.looseObject({
      type: z.literal("json_schema"),
      json_schema: z.looseObject({ schema }, "an object with a schema"),
    }),
  ],
  "an object with type text, json_object or json_schema",
);

/** A format as responses and messages have it. */
export const flatFormat = z.discriminatedUnion(
  "type",
  [
    z.looseObject({ type: z.literal("text") }),
    z.looseObject({ type: z.literal("json_object") }),
    z.looseObject({ type: z.literal("json_schema"), schema }),
  ],
  "an object with type text, json_object or json_schema",
);

/** vLLM's fields. */
export const guidedFields = {
  guided_json: schema.optional(),
  guided_regex: text.optional(),
  guided_choice: texts.optional(),
  structured_outputs: z
    .looseObject(
      {
        json: schema.optional(),
        regex: text.optional(),
        choice: texts.optional(),
        json_object: flag.optional(),
      },
      "an object with json, regex, choice or json_object",
    )
    .optional(),
};

interface GuidedFields {
  readonly response_format?: z.output<typeof responseFormat> | undefined;
  readonly guided_json?: unknown;
  readonly guided_regex?: string | undefined;
  readonly guided_choice?: readonly string[] | undefined;
  readonly structured_outputs?:
    | {
        readonly json?: unknown;
        readonly regex?: string | undefined;
        readonly choice?: readonly string[] | undefined;
        readonly json_object?: boolean | undefined;
      }
    | undefined;
}

/** The format that a body asks for; undefined for free text. Throws where it asks for two. */
export function formatOf(fields: GuidedFields): Constraint | undefined {
  const { response_format: format, structured_outputs: structured = {} } = fields;
  const asked = [
    format?.type === "json_schema" ? jsonOf(format.json_schema.schema) : undefined,
    format?.type === "json_object" || structured.json_object === true ? anyObject : undefined,
    jsonOf(fields.guided_json ?? structured.json),
    regexOf(fields.guided_regex ?? structured.regex),
    choiceOf(fields.guided_choice ?? structured.choice),
  ].filter((constraint) => constraint !== undefined);
  if (asked.length > 1) throw requestError("response_format", "The request asks for two formats at once. Ask for one.");
  return asked[0];
}

/** The format of responses and messages. */
export function flatFormatOf(format: z.output<typeof flatFormat> | undefined): Constraint | undefined {
  if (format?.type === "json_schema") return jsonOf(format.schema);
  return format?.type === "json_object" ? anyObject : undefined;
}

const anyObject: Constraint = { kind: "json-schema", schema: { type: "object" } };

function jsonOf(given: unknown): Constraint | undefined {
  return given === undefined ? undefined : { kind: "json-schema", schema: given };
}

function regexOf(pattern: string | undefined): Constraint | undefined {
  return pattern === undefined ? undefined : { kind: "regex", pattern };
}

function choiceOf(choices: readonly string[] | undefined): Constraint | undefined {
  return choices === undefined ? undefined : { kind: "choice", choices };
}

/** What a client says of tool calls, whatever its API calls it. */
export interface CallRules {
  /** `{ name }`: this one, once. */
  readonly choice: "auto" | "none" | "required" | { readonly name: string };
  /** Whether a reply may hold several calls. */
  readonly isParallel: boolean;
}

/** Joins the format with the rules of calls. Throws where the two exclude each other, or where it cannot be enforced. */
export function constraintOf(
  format: Constraint | undefined,
  tools: readonly ChatTool[] | undefined,
  { choice, isParallel }: CallRules,
): Constraint | undefined {
  const constraint = joined(format, (tools ?? []).map(constrainedTool), choice, !isParallel);
  // Refused here, while nothing has begun, and in words of the request.
  if (constraint !== undefined) grammarOf(constraint);
  return constraint;
}

function joined(
  format: Constraint | undefined,
  tools: readonly ConstrainedTool[],
  choice: CallRules["choice"],
  isSingle: boolean,
): Constraint | undefined {
  if (choice === "required" || typeof choice === "object") {
    if (format !== undefined)
      throw requestError("tool_choice", "tool_choice forces a call and the format forces a text. Ask for one of them.");
    return { kind: "tool-calls", ...chosen(tools, choice, isSingle) };
  }
  if (choice === "none" || tools.length === 0) return format;
  if (format === undefined) return isSingle ? { kind: "at-most-one-call", tools } : undefined;
  if (format.kind !== "json-schema")
    throw requestError(
      "tools",
      "Tools go with a JSON format, and not with a pattern or a choice. Leave one of them out.",
    );
  return { kind: "json-or-calls", schema: format.schema, tools, isSingle };
}

function chosen(tools: readonly ConstrainedTool[], choice: "required" | { readonly name: string }, isSingle: boolean) {
  if (tools.length === 0) throw requestError("tool_choice", "tool_choice asks for a call, and there are no tools.");
  if (choice === "required") return { tools, isSingle };
  const found = tools.filter(({ name }) => name === choice.name);
  if (found.length > 0) return { tools: found, isSingle: true };
  const known = tools.map(({ name }) => name).join(", ");
  throw requestError(
    "tool_choice",
    `tool_choice names ${JSON.stringify(choice.name)}, which is no tool of this request: ${known}.`,
  );
}

function constrainedTool({ function: described }: ChatTool): ConstrainedTool {
  const { name, parameters } = described as { name: string; parameters?: unknown };
  return { name, parameters };
}
