/**
 * What a reply must look like: plain data that travels with a request, and the grammar that it means.
 *
 * The grammar never allows a text that the constraint forbids. What it cannot express is refused with the reason, before anything is
 * drawn.
 */
import { type ToolCallFormatName, toolCallFormats } from "../../chat/tool-calls/table.ts";
import type { ToolCallFormat } from "../../chat/tool-calls/tool-call-format.ts";
import { jsonDepth, MAX_JSON_DEPTH } from "../../errors/json-depth.ts";
import { invalidConstraint, literal } from "./grammar-text.ts";
import { schemaGrammar } from "./json-schema-grammar.ts";
import { regexGrammar } from "./regex-grammar.ts";
import { isSchemaObject } from "./schema-shape.ts";

export type Constraint =
  /** JSON that fits a JSON Schema, in one line. */
  | { readonly kind: "json-schema"; readonly schema: unknown }
  /** A text that the whole pattern matches. */
  | { readonly kind: "regex"; readonly pattern: string }
  /** One of these texts. */
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  /** Tool calls and nothing else: one, or at least one. */
  | {
      readonly kind: "tool-calls";
      readonly tools: readonly ConstrainedTool[];
      readonly isSingle: boolean;
      readonly format?: ToolCallFormatName;
    }
  /** Either JSON that fits a schema, or tool calls. */
  | {
      readonly kind: "json-or-calls";
      readonly schema: unknown;
      readonly tools: readonly ConstrainedTool[];
      readonly isSingle: boolean;
      readonly format?: ToolCallFormatName;
    }
  /** Free text with at most one tool call, which ends the reply. */
  | {
      readonly kind: "at-most-one-call";
      readonly tools: readonly ConstrainedTool[];
      readonly format?: ToolCallFormatName;
    };

/** A tool as its calls are constrained. */
export interface ConstrainedTool {
  readonly name: string;
  /** A JSON Schema of its arguments. */
  readonly parameters: unknown;
}

/** A grammar in the notation of xgrammar: rules alone, or free text in which a tag is followed by rules. */
export type Grammar =
  | { readonly kind: "rules"; readonly rules: string }
  | { readonly kind: "tagged"; readonly trigger: string; readonly tags: readonly GrammarTag[] };

interface GrammarTag {
  readonly begin: string;
  readonly rules: string;
  readonly end: string;
}

/** Compiling takes time in proportion; what people write stays far below. */
const MAX_RULES_LENGTH = 400_000;
const MAX_CONSTRAINT_LENGTH = 100_000;

/** Throws INVALID_REQUEST for a constraint that cannot be enforced. */
export function grammarOf(constraint: Constraint): Grammar {
  const text = JSON.stringify(constraint);
  const asked = text.length;
  if (jsonDepth(text) > MAX_JSON_DEPTH)
    throw invalidConstraint("response_format", `The format asked for nests deeper than ${MAX_JSON_DEPTH} levels.`);
  if (asked > MAX_CONSTRAINT_LENGTH) {
    throw invalidConstraint(
      "response_format",
      `The format asked for has ${asked} characters, and ${MAX_CONSTRAINT_LENGTH} are allowed. Ask for less.`,
    );
  }
  const grammar = build(constraint);
  const length = grammar.kind === "rules" ? grammar.rules.length : sum(grammar.tags.map(({ rules }) => rules.length));
  if (length > MAX_RULES_LENGTH) throw tooLarge(length);
  return grammar;
}

function build(constraint: Constraint): Grammar {
  switch (constraint.kind) {
    case "json-schema":
      return { kind: "rules", rules: schemaGrammar(constraint.schema) };
    case "regex":
      return { kind: "rules", rules: `root ::= ${regexGrammar(constraint.pattern, "text")}\n` };
    case "choice":
      return { kind: "rules", rules: `root ::= ${choice(constraint.choices)}\n` };
    case "tool-calls":
      return { kind: "rules", rules: `${callRules(constraint)}root ::= calls\n` };
    case "json-or-calls": {
      // A call that looks like JSON may be either at first.
      const isAmongOthers = !callText(constraint).startsWith("<");
      const value = schemaGrammar(constraint.schema, { root: "value", prefix: "v_", isAmongOthers });
      const calls = callRules(constraint, isAmongOthers);
      return { kind: "rules", rules: `${value}${calls}root ::= value | calls\n` };
    }
    case "at-most-one-call": {
      const frame = frameOf(constraint.format);
      return {
        kind: "tagged",
        trigger: frame.trigger,
        tags: constraint.tools.map(({ name, parameters }) => ({
          begin: frame.before + frame.begin(name),
          rules: schemaGrammar(ofObjects(parameters), {
            param: `tools (${name})`,
            isAmongOthers: !isOnlyOne(name, constraint.tools),
          }),
          end: frame.end + frame.after,
        })),
      };
    }
  }
}

/** How calls are written around their arguments, which are JSON in every format. */
function frameOf(format: ToolCallFormatName = "hermes") {
  const { frame, open, isAtStart = false }: ToolCallFormat = toolCallFormats[format];
  const [before, after] = frame.around ?? ["", ""];
  // What shows that a call has begun; a bracket alone shows nothing.
  return { ...frame, before, after, trigger: isAtStart ? `${before}{"name": ` : open };
}

function callText({ tools, format }: Extract<Constraint, { isSingle: boolean }>): string {
  const frame = frameOf(format);
  return frame.before + frame.begin(tools[0]?.name ?? "");
}

function callRules(
  { tools, isSingle, format }: Extract<Constraint, { isSingle: boolean }>,
  isAmongOthers = false,
): string {
  if (tools.length === 0) throw invalidConstraint("tools", "A tool call was asked for, and there are no tools.");
  const frame = frameOf(format);
  const rules = tools.map(({ name, parameters }, index) =>
    schemaGrammar(ofObjects(parameters), {
      root: `arguments_${index}`,
      prefix: `t${index}_`,
      param: `tools (${name})`,
      isAmongOthers: isAmongOthers || !isOnlyOne(name, tools),
    }),
  );
  const calls = tools.map(
    ({ name }, index) => `${literal(frame.begin(name))} arguments_${index} ${literal(frame.end)}`,
  );
  const more =
    isSingle || frame.between === null ? "" : ` (${frame.between === "" ? "" : literal(frame.between)} call)*`;
  const all = `${frame.before === "" ? "" : `${literal(frame.before)} `}call${more}${frame.after === "" ? "" : ` ${literal(frame.after)}`}`;
  return `${rules.join("")}call ::= ${calls.map((one) => `(${one})`).join(" | ")}\ncalls ::= ${all}\n`;
}

/** Whether no other tool has this name. */
function isOnlyOne(name: string, tools: readonly ConstrainedTool[]): boolean {
  return tools.filter((tool) => tool.name === name).length === 1;
}

/** Arguments are objects, also where a schema does not say so. */
function ofObjects(parameters: unknown): unknown {
  const isBare =
    isSchemaObject(parameters) && !["type", "anyOf", "oneOf", "allOf", "$ref"].some((word) => word in parameters);
  if (isBare) return { ...parameters, type: "object" };
  return parameters ?? { type: "object" };
}

function choice(choices: readonly string[]): string {
  if (choices.length === 0 || choices.includes("")) {
    throw invalidConstraint("choice", "choice must have at least one text, and none that is empty.");
  }
  return choices.map((text) => `(${literal(text)})`).join(" | ");
}

function tooLarge(length: number) {
  return invalidConstraint(
    "response_format",
    `The format asked for becomes a grammar of ${length} characters, and ${MAX_RULES_LENGTH} are allowed. Ask for less, or leave limits such as maxLength out.`,
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
