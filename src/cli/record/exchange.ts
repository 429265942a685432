/** A call that went through the recorder, as messages: the form that all APIs are brought into. */
import type { ChatMessage, ChatToolCall } from "../../flow/chat-message.ts";

/** What a request asked. */
export interface AskedChat {
  readonly messages: readonly ChatMessage[];
  /** The functions that were offered, in the form of chat completions. Tools that the server runs itself are left out. */
  readonly tools: readonly unknown[];
  readonly model: string | null;
}

/** What came back. */
export interface AnsweredChat {
  readonly reply: ChatMessage;
  readonly finish: string | null;
  readonly usage: unknown;
}

/** A request with its answer, both whole. */
export interface Exchange {
  readonly asked: AskedChat;
  readonly answered: AnsweredChat;
}

/** The answer to a call: its body as one value, or its events in order. */
type Answer =
  | { readonly kind: "whole"; readonly body: Fields }
  | { readonly kind: "events"; readonly events: readonly Fields[]; readonly isDone: boolean };

/** Reads the calls of one API. Undefined where there is no whole reply: an error, or an answer that broke off. */
export type ReadExchange = (asked: Fields, answer: Answer) => Exchange | undefined;

/** JSON of unknown shape. */
export type Fields = Readonly<Record<string, unknown>>;

/** The answer as it was sent. */
export function readAnswer(body: string, contentType: string): Answer {
  if (!contentType.includes("text/event-stream")) return { kind: "whole", body: fieldsOf(parseJson(body)) };
  const lines = body
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trim());
  return { kind: "events", events: lines.map((line) => fieldsOf(parseJson(line))), isDone: lines.includes("[DONE]") };
}

/** Clients leave out what is empty, write null for it, or an empty list: here it is always left out. */
export function messageOf(role: string, text: ChatMessage["content"], more: MessageExtras = {}): ChatMessage {
  const { calls = [], reasoning = "", ...named } = more;
  return {
    role,
    content: (text ?? "") === "" && calls.length > 0 ? null : (text ?? ""),
    ...named,
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(reasoning !== "" && { reasoning_content: reasoning }),
  };
}

interface MessageExtras {
  readonly calls?: readonly ChatToolCall[];
  readonly reasoning?: string;
  readonly name?: string;
  readonly tool_call_id?: string;
}

/** A call of a function. */
export function callOf(id: unknown, name: unknown, given: unknown): ChatToolCall {
  return {
    ...(typeof id === "string" && { id }),
    type: "function",
    function: { name: textOr(name, ""), arguments: textOr(given, "{}") },
  };
}

/** Texts joined; pictures and the like stay parts. Parts of these types are text. */
export function joinParts(
  content: unknown,
  textTypes: readonly string[] = ["text"],
): NonNullable<ChatMessage["content"]> {
  if (!Array.isArray(content)) return textOr(content, "");
  const parts = content.map(fieldsOf);
  if (parts.some(({ type, text }) => !textTypes.includes(textOr(type, "")) || typeof text !== "string")) {
    return parts.map((part) => ({ ...part, type: textOr(part.type, "text") }));
  }
  return parts.map(({ text }) => text).join("");
}

/** A function in the form of chat completions. */
export function functionTool(name: unknown, description: unknown, parameters: unknown): object {
  return {
    type: "function",
    function: {
      name: textOr(name, ""),
      ...(typeof description === "string" && { description }),
      parameters: parameters ?? {},
    },
  };
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** No fields at all where a value is no object. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

/** No fields at all where a value is no list. */
export function listOf(value: unknown): readonly Fields[] {
  return Array.isArray(value) ? value.map(fieldsOf) : [];
}

export function textOr<Other>(value: unknown, other: Other): string | Other {
  return typeof value === "string" ? value : other;
}
