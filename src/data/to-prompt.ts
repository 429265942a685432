/** From a row to a prompt, by a schema. */

import { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../flow/chat-message.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";
import { deriveSeed } from "../random/random.ts";
import type { SettledSchema } from "./choose-schema.ts";
import { type DataRow, isDataRow, type PlacedRow } from "./data-row.ts";
import { fillTemplate, valueAt } from "./fill-template.ts";
import type { MessageTemplate } from "./row-schema.ts";

/** A prompt, and what it asks without template and system message: equal for rows that ask the same. */
export interface RowPrompt {
  readonly prompt: Prompt;
  readonly content: string;
}

/** A row that lacks what a prompt needs, and which column it was looked for in. */
interface IncompleteRow {
  readonly missing: string;
}

/** Makes the prompt of a row. `id` is the row's for good, and the seed of the prompt follows from it. */
export function toPrompt(placed: PlacedRow, id: string, schema: SettledSchema): RowPrompt | IncompleteRow {
  const { fields, template } = schema;
  const seed = deriveSeed(0, id);
  const row = schema.derive(placed.row, seed);
  const broken = (what: string) => rowError(placed, what);

  const asked = fields.messages ?? fields.question ?? "question";
  const question = valueAt(row, asked) ?? "";
  if (typeof question === "string" && question.trim() === "") return { missing: asked };
  const truth = readTruth(row, fields.truth);
  if (truth === undefined) return { missing: [fields.truth ?? []].flat()[0] ?? "truth" };

  const given = fields.messages !== undefined || Array.isArray(question) ? readMessages(question, broken) : null;
  const domain = fields.domain ? valueAt(row, fields.domain) : undefined;
  const tools = fields.tools ? readTools(valueAt(row, fields.tools), broken) : undefined;
  const prompt: Prompt = {
    id,
    domain: schema.domainOf(domain === undefined || domain === null ? undefined : String(domain)),
    seed,
    messages: given === null ? fillMessages(template, { ...row, question }) : override(given, template, row),
    ...(tools && { tools }),
    truth,
    extra: readExtra(row, fields),
  };
  const content = given === null ? question : given.filter(({ role }) => role !== "system");
  return { prompt, content: typeof content === "string" ? content : JSON.stringify(content) };
}

/** The id that the row itself has, if the schema knows of one. */
export function ownId(row: DataRow, { fields }: SettledSchema): string | null {
  const id = fields.id === undefined ? undefined : valueAt(row, fields.id);
  return typeof id === "string" || typeof id === "number" ? String(id) : null;
}

/** What is wrong with a row, with where it stands and which columns it has. */
export function rowError({ file, index, row }: PlacedRow, what: string): RerollError {
  const columns = Object.keys(row);
  const message = `${file} row ${index + 1} ${what}. Its columns are: ${columns.join(", ")}.`;
  return new RerollError("DATA_INVALID", message, { file, row: index + 1, columns });
}

/** Messages as a list or as its JSON text. */
function readMessages(value: JsonValue | undefined, broken: (what: string) => RerollError): readonly ChatMessage[] {
  const messages = typeof value === "string" ? parseJson(value) : value;
  if (Array.isArray(messages) && messages.length > 0 && messages.every(isMessage)) return messages;
  throw broken(`has messages that are no list of { role, content }: got ${JSON.stringify(value)?.slice(0, 80)}`);
}

function isMessage(value: unknown): value is ChatMessage {
  if (!isDataRow(value) || typeof value.role !== "string") return false;
  const { content } = value;
  return content === undefined || content === null || typeof content === "string" || Array.isArray(content);
}

function readTools(value: JsonValue | undefined, broken: (what: string) => RerollError): ChatTool[] | undefined {
  const tools = typeof value === "string" ? parseJson(value) : value;
  if (tools === undefined || tools === null) return undefined;
  if (Array.isArray(tools) && tools.every(isDataRow)) return tools;
  throw broken("has tools that are no list of objects");
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fillMessages({ system, user = "{question}" }: MessageTemplate, row: DataRow): ChatMessage[] {
  return [
    ...(system === undefined ? [] : [{ role: "system", content: fillTemplate(system, row) }]),
    { role: "user", content: fillTemplate(user, row) },
  ];
}

/** A template beside messages: its user text takes their place, its system text that of their system message. */
function override(given: readonly ChatMessage[], template: MessageTemplate, row: DataRow): readonly ChatMessage[] {
  const last = given.findLast(({ role }) => role === "user")?.content;
  const columns = { ...row, ...(typeof last === "string" && { question: last }) };
  if (template.user !== undefined) return fillMessages(template, columns);
  if (template.system === undefined) return given;
  const system = { role: "system", content: fillTemplate(template.system, columns) };
  return [system, ...given.filter(({ role }) => role !== "system")];
}

/** Null where the schema knows of no truth, undefined where the row lacks it. */
function readTruth(row: DataRow, truth: string | readonly string[] | undefined): JsonValue | undefined {
  if (truth === undefined) return null;
  const parts = [truth].flat().map((path) => [path, valueAt(row, path) ?? null] as const);
  const value = parts[0]?.[1] ?? undefined;
  return value === undefined || typeof truth === "string"
    ? value
    : Object.fromEntries(parts.filter(([, part]) => part !== null));
}

/** Columns that went into the prompt whole are not kept twice. */
function readExtra(row: DataRow, fields: SettledSchema["fields"]): Record<string, JsonValue> {
  const used = new Set(Object.values(fields).flat());
  return Object.fromEntries(Object.entries(row).filter(([name]) => !used.has(name)));
}
