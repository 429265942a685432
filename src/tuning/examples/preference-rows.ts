/**
 * Rows that say which replies are better, in the forms that data sets have:
 *
 * | columns | read as |
 * |---|---|
 * | prompt, chosen, rejected: texts or messages | a pair; its margin is `margin`, or `score_chosen` minus `score_rejected` |
 * | chosen, rejected: whole conversations | a pair; the prompt is what the two share |
 * | chosen, rejected: texts of `\n\nHuman:` and `\n\nAssistant:` | a pair, as in HH |
 * | instruction, completions with `response` and `overall_score` | a pair, as in UltraFeedback: the best one and one rated lower |
 * | prompt, completion (or response), or messages; `label` | a reply that is wanted or not, as for KTO |
 * | prompt, completion (or response), or messages; `score` | a reply with a score |
 * | tools, beside any of these | those that the assistant may call |
 */
import { isDataRow, type PlacedRow } from "../../data/data-row.ts";
import { valueAt } from "../../data/fill-template.ts";
import { rowError } from "../../data/to-prompt.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import type { ReaderParts } from "./example-reader.ts";
import { parseDialog } from "./parse-dialog.ts";
import { readMessages, readTools, shown } from "./row-messages.ts";
import { expectReply, type ReplyPair, splitPair } from "./split-pair.ts";

type Fields = ReaderParts["fields"];
type Turns = readonly ChatMessage[];
/** Those that the assistant may call in the conversation of a row. */
type Tools = readonly ChatTool[] | undefined;

/** A pair, and how much better the chosen reply was rated; null where the row does not say. */
interface PreferencePair extends ReplyPair {
  readonly margin: number | null;
  readonly tools: Tools;
}

/** One reply to a prompt. */
export interface PromptReply {
  readonly prompt: Turns;
  readonly reply: Turns;
  readonly tools: Tools;
}

/** Names that `data.fields` may give columns for, by what is read. */
export const pairFields = ["prompt", "chosen", "rejected", "margin", "tools"] as const;
export const replyFields = ["messages", "prompt", "completion", "tools"] as const;

/** The pair of a row. Throws where there is none. */
export function readPair(placed: PlacedRow, fields: Fields): PreferencePair {
  const { row } = placed;
  if (fields.chosen === undefined && "instruction" in row && "completions" in row) return readRated(placed, fields);
  const names = { chosen: fields.chosen ?? "chosen", rejected: fields.rejected ?? "rejected" };
  const [chosen, rejected] = [readSide(placed, names.chosen), readSide(placed, names.rejected)];
  const others = { margin: readMargin(placed, fields), tools: toolsOf(placed, fields) };
  if (chosen[0]?.role !== "assistant") return { ...splitPair(placed, chosen, rejected), ...others };
  const prompt = readTurns(placed, fields.prompt ?? "prompt", "user");
  return { ...splitPair(placed, [...prompt, ...chosen], [...prompt, ...rejected]), ...others };
}

/** Whether a row holds two replies and not one. */
export function isPair({ row }: PlacedRow, fields: Fields): boolean {
  return (fields.chosen ?? "chosen") in row || "completions" in row;
}

/** The only reply of a row. Throws where there is none. */
export function readReply(placed: PlacedRow, fields: Fields): PromptReply {
  const { row } = placed;
  const tools = toolsOf(placed, fields);
  const messages = fields.messages ?? (fields.prompt === undefined && "messages" in row ? "messages" : undefined);
  if (messages !== undefined) {
    const turns = readMessages(placed, messages, valueAt(row, messages));
    if (turns.length === 1) throw rowError(placed, `has no prompt in ${messages}`);
    return { prompt: turns.slice(0, -1), reply: expectReply(placed, turns.slice(-1), messages), tools };
  }
  const completion = fields.completion ?? ("completion" in row || !("response" in row) ? "completion" : "response");
  const prompt = readTurns(placed, fields.prompt ?? "prompt", "user");
  return { prompt, reply: expectReply(placed, readTurns(placed, completion, "assistant"), completion), tools };
}

function toolsOf(placed: PlacedRow, fields: Fields): Tools {
  return readTools(placed, valueAt(placed.row, fields.tools ?? "tools"));
}

/** A number in a column. Throws for anything else. */
export function readNumber(placed: PlacedRow, column: string): number {
  const value = valueAt(placed.row, column);
  if (isNumber(value)) return value;
  throw rowError(placed, `must have a number in ${column}: got ${shown(value)}`);
}

/** True or false in a column; files without a type for them have 1 and 0. */
export function readLabel(placed: PlacedRow, column: string): boolean {
  const value = valueAt(placed.row, column);
  if (value === true || value === 1) return true;
  if (value === false || value === 0) return false;
  throw rowError(placed, `must have true or false in ${column}: got ${shown(value)}`);
}

/** One side of a pair: a reply, or a whole conversation. */
function readSide(placed: PlacedRow, column: string): Turns {
  const value = valueAt(placed.row, column);
  return parseDialog(value) ?? readTurns(placed, column, "assistant");
}

/** A text as one message of `role`, messages as they are. */
function readTurns(placed: PlacedRow, column: string, role: "user" | "assistant"): Turns {
  const value = valueAt(placed.row, column);
  if (value === undefined || value === null) throw rowError(placed, `has nothing in ${column}`);
  if (typeof value !== "string") return readMessages(placed, column, isDataRow(value) ? [value] : value);
  if (value.trim() === "") throw rowError(placed, `has an empty ${role === "user" ? "prompt" : "reply"} in ${column}`);
  return [{ role, content: value }];
}

function readMargin(placed: PlacedRow, fields: Fields): number | null {
  const { row } = placed;
  const column = fields.margin ?? "margin";
  if (fields.margin !== undefined || (row[column] ?? null) !== null) return readNumber(placed, column);
  if ((row.score_chosen ?? null) === null || (row.score_rejected ?? null) === null) return null;
  return readNumber(placed, "score_chosen") - readNumber(placed, "score_rejected");
}

/** The best completion against one of those that are rated lower, drawn by the instruction: always the worst would be too easy. */
function readRated(placed: PlacedRow, fields: Fields): PreferencePair {
  const prompt = readTurns(placed, "instruction", "user");
  const { completions } = placed.row;
  const rated = (Array.isArray(completions) ? completions : []).map((one, i) => readCompletion(placed, one, i));
  const best = rated.reduce<Rated | null>((most, one) => (most === null || one.score > most.score ? one : most), null);
  const lower = rated.filter(({ score }) => best !== null && score < best.score);
  if (best === null || lower.length === 0) throw rowError(placed, "has no two completions with different scores");
  const worse = lower[new Random(deriveSeed(0, JSON.stringify(prompt))).integer(lower.length)]!;
  const conversation = ({ reply }: Rated): Turns => [...prompt, { role: "assistant", content: reply }];
  const pair = splitPair(placed, conversation(best), conversation(worse));
  return { ...pair, margin: best.score - worse.score, tools: toolsOf(placed, fields) };
}

interface Rated {
  readonly reply: string;
  readonly score: number;
}

function readCompletion(placed: PlacedRow, value: JsonValue, index: number): Rated {
  const { response, overall_score: score } = isDataRow(value) ? value : {};
  if (typeof response === "string" && isNumber(score)) return { reply: response, score };
  throw rowError(
    placed,
    `must have a response and a number in overall_score in completions[${index}]: got ${shown(value)}`,
  );
}

function isNumber(value: JsonValue | undefined): value is number {
  return typeof value === "number" && Number.isFinite(value);
}
