/** Conversations in the forms that rows have: lists of { role, content } or { from, value }, or the JSON text of either. */
import { type DataRow, isDataRow, type PlacedRow } from "../../data/data-row.ts";
import { rowError } from "../../data/to-prompt.ts";
import { didYouMean } from "../../errors/nearest-name.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { JsonValue } from "../../flow/prompt.ts";

const ROLES = ["system", "developer", "user", "assistant", "tool"];

/** Names of roles in { from, value }. */
const SPEAKERS: Readonly<Record<string, string>> = {
  human: "user",
  gpt: "assistant",
  chatgpt: "assistant",
  model: "assistant",
  function_call: "assistant",
  observation: "tool",
};

/** The messages in a column. Throws for what is no conversation, for unknown roles and for empty replies. */
export function readMessages(placed: PlacedRow, column: string, value: JsonValue | undefined): readonly ChatMessage[] {
  const list = typeof value === "string" ? parseJson(value) : value;
  if (!Array.isArray(list) || list.length === 0) {
    throw rowError(
      placed,
      `has no list of messages in ${column}: got ${shown(value)}, and needs [{ "role": "user", "content": "..." }, ...]`,
    );
  }
  return list.map((message, i) => readMessage(placed, `${column}[${i}]`, message));
}

/** Tools that the assistant may call, as a list or its JSON text. */
export function readTools(placed: PlacedRow, value: JsonValue | undefined): readonly ChatTool[] | undefined {
  const tools = typeof value === "string" ? parseJson(value) : value;
  if (tools === undefined || tools === null) return undefined;
  if (Array.isArray(tools) && tools.every(isDataRow)) return tools.length === 0 ? undefined : tools;
  throw rowError(placed, `has tools that are no list of objects: got ${shown(value)}`);
}

function readMessage(placed: PlacedRow, place: string, value: unknown): ChatMessage {
  if (!isDataRow(value)) throw rowError(placed, `has no message in ${place}: got ${shown(value)}`);
  const message = "from" in value && !("role" in value) ? fromSpeaker(value) : value;
  const { role, content } = message;
  if (typeof role !== "string" || !ROLES.includes(role)) {
    const hint = typeof role === "string" ? didYouMean(role, ROLES) : "";
    throw rowError(placed, `has the role ${shown(role)} in ${place}.${hint} Known roles are: ${ROLES.join(", ")}`);
  }
  const isText = content === undefined || content === null || typeof content === "string" || Array.isArray(content);
  if (!isText) throw rowError(placed, `has content in ${place} that is no text: got ${shown(content)}`);
  if (role === "assistant" && isBlank(message)) throw rowError(placed, `has an empty reply in ${place}`);
  return message as unknown as ChatMessage;
}

function fromSpeaker({ from, value, ...others }: DataRow): DataRow {
  const speaker = String(from);
  return { ...others, role: SPEAKERS[speaker] ?? speaker, content: value ?? null };
}

function isBlank({ content, tool_calls }: DataRow): boolean {
  const hasCalls = Array.isArray(tool_calls) && tool_calls.length > 0;
  return (
    !hasCalls &&
    (content === undefined || content === null || content === "" || (Array.isArray(content) && content.length === 0))
  );
}

/** A value in a message about it, cut short. */
export function shown(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 80);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
