/**
 * Reads what went through the recorder: a request to /chat/completions and its answer, whole or streamed, as messages.
 *
 * Unknown fields of messages are left out: what is kept is what chat templates read.
 */
import type { ChatMessage, ChatToolCall } from "../../flow/chat-message.ts";

/** What a request asked. */
export interface AskedChat {
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly unknown[];
  readonly model: string | null;
}

/** What came back. */
export interface AnsweredChat {
  readonly reply: ChatMessage;
  readonly finish: string | null;
  readonly usage: unknown;
}

type Fields = Readonly<Record<string, unknown>>;

/** Undefined where a body is no chat. */
export function readAsked(body: string): AskedChat | undefined {
  const { messages, tools, model } = fieldsOf(parse(body));
  if (!Array.isArray(messages) || messages.length === 0) return undefined;
  return {
    messages: messages.map((message) => readMessage(fieldsOf(message))),
    tools: Array.isArray(tools) ? tools : [],
    model: typeof model === "string" ? model : null,
  };
}

/** The first choice of an answer as a message. Undefined where there is no whole reply: an error, or an answer that broke off. */
export function readAnswer(body: string, contentType: string): AnsweredChat | undefined {
  if (contentType.includes("text/event-stream")) return joinEvents(body);
  const { choices, usage = null } = fieldsOf(parse(body));
  const { message, finish_reason: finish } = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
  if (message === undefined) return undefined;
  return { reply: readMessage({ role: "assistant", ...fieldsOf(message) }), finish: textOr(finish, null), usage };
}

function joinEvents(body: string): AnsweredChat | undefined {
  const events = body
    .split(/\r?\n/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice("data:".length).trim());
  if (!events.includes("[DONE]")) return undefined;
  let content = "";
  let reasoning = "";
  let finish: string | null = null;
  let usage: unknown = null;
  const calls = new Map<number, { id: string; name: string; arguments: string }>();
  for (const event of events) {
    const { choices, usage: used } = fieldsOf(parse(event));
    usage = used ?? usage;
    const first = Array.isArray(choices) ? choices.find((choice) => (fieldsOf(choice).index ?? 0) === 0) : undefined;
    const { delta, finish_reason: ended } = fieldsOf(first);
    const { content: piece, reasoning_content: thought, tool_calls: pieces } = fieldsOf(delta);
    content += textOr(piece, "");
    reasoning += textOr(thought, "");
    finish = textOr(ended, finish);
    for (const call of Array.isArray(pieces) ? pieces.map(fieldsOf) : []) {
      const at = typeof call.index === "number" ? call.index : calls.size;
      const known = calls.get(at) ?? { id: "", name: "", arguments: "" };
      const { name, arguments: more } = fieldsOf(call.function);
      calls.set(at, {
        id: known.id || textOr(call.id, ""),
        name: known.name + textOr(name, ""),
        arguments: known.arguments + textOr(more, ""),
      });
    }
  }
  const toolCalls = [...calls.values()].map(({ id, ...called }) => ({ id, type: "function", function: called }));
  const message = { role: "assistant", content, reasoning_content: reasoning, tool_calls: toolCalls };
  return { reply: readMessage(message), finish, usage };
}

/** Clients leave out what is empty, write null for it, or an empty list: here it is always left out. */
function readMessage({ role, content, name, tool_calls, tool_call_id, reasoning_content }: Fields): ChatMessage {
  const text = joinParts(content);
  const calls = Array.isArray(tool_calls) ? tool_calls.map((call) => readCall(fieldsOf(call))) : [];
  return {
    role: textOr(role, "user"),
    content: text === "" && calls.length > 0 ? null : text,
    ...(typeof name === "string" && { name }),
    ...(calls.length > 0 && { tool_calls: calls }),
    ...(typeof tool_call_id === "string" && { tool_call_id }),
    ...(typeof reasoning_content === "string" && reasoning_content !== "" && { reasoning_content }),
  };
}

function readCall({ id, function: called }: Fields): ChatToolCall {
  const { name, arguments: given } = fieldsOf(called);
  return {
    ...(typeof id === "string" && { id }),
    type: "function",
    function: { name: textOr(name, ""), arguments: textOr(given, "{}") },
  };
}

/** Texts joined; pictures and the like stay parts. */
function joinParts(content: unknown): string | readonly { readonly type: string }[] {
  if (!Array.isArray(content)) return textOr(content, "");
  const parts = content.map(fieldsOf);
  if (parts.some(({ type, text }) => type !== "text" || typeof text !== "string")) {
    return parts.map((part) => ({ ...part, type: textOr(part.type, "text") }));
  }
  return parts.map(({ text }) => text).join("");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? (value as Fields) : {};
}

function textOr<Other>(value: unknown, other: Other): string | Other {
  return typeof value === "string" ? value : other;
}
