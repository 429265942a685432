/**
 * Reads calls of /responses: items become messages, and what a call leaves out because the server has it is filled in.
 *
 * A reply that came as several items (its text, its calls) is one assistant message; of an answer with several texts, the last is the
 * reply. Answers are remembered, so that calls that name
 * one (`previous_response_id`) or its items (`item_reference`) can be read whole; the oldest are forgotten first. A call that names what
 * is not remembered is not read.
 */
import type { ChatMessage, ChatToolCall } from "../../flow/chat-message.ts";
import {
  callOf,
  type Exchange,
  type Fields,
  fieldsOf,
  functionTool,
  joinParts,
  listOf,
  messageOf,
  type ReadExchange,
  textOr,
} from "./exchange.ts";

const MAX_REMEMBERED = 4096;
const TEXT_TYPES = ["input_text", "output_text", "text"];

/** A reader of its own for each recorder: it remembers what went through. */
export function createResponsesReader(): ReadExchange {
  /** Conversations up to an answer and with it, without their instructions. */
  const conversations = new Map<string, readonly ChatMessage[]>();
  const items = new Map<string, Fields>();
  return (asked, answer) => {
    const body = answer.kind === "whole" ? answer.body : lastResponse(answer.events);
    const { instructions, input, tools, model, previous_response_id: previousId } = asked;
    const earlier = typeof previousId === "string" ? conversations.get(previousId) : [];
    const given = typeof input === "string" ? [{ role: "user", content: input }] : listOf(input);
    const named = given.map((item) => (item.type === "item_reference" ? items.get(textOr(item.id, "")) : item));
    if (body === undefined || !Array.isArray(body.output) || earlier === undefined) return undefined;
    if (named.some((item) => item === undefined)) return undefined;
    const output = listOf(body.output);
    const replies = readItems(output);
    const reply = replies.at(-1) ?? messageOf("assistant", "");
    const conversation = [...earlier, ...readItems(named.map(fieldsOf)), ...replies.slice(0, -1)];
    if (typeof body.id === "string") remember(conversations, body.id, [...conversation, reply]);
    for (const item of output) if (typeof item.id === "string") remember(items, item.id, item);
    return exchangeOf({ instructions, tools, model }, conversation, reply, body);
  };
}

function exchangeOf(
  { instructions, tools, model }: Fields,
  conversation: readonly ChatMessage[],
  reply: ChatMessage,
  { status, incomplete_details: details, usage = null }: Fields,
): Exchange {
  return {
    asked: {
      messages: typeof instructions === "string" ? [messageOf("system", instructions), ...conversation] : conversation,
      tools: listOf(tools)
        .filter(({ type }) => type === "function")
        .map(({ name, description, parameters }) => functionTool(name, description, parameters)),
      model: textOr(model, null),
    },
    answered: { reply, finish: textOr(fieldsOf(details).reason, textOr(status, null)), usage },
  };
}

/** The last event of a whole answer holds all of it. */
function lastResponse(events: readonly Fields[]): Fields | undefined {
  const last = events.findLast(({ type }) => type === "response.completed" || type === "response.incomplete");
  return last && fieldsOf(last.response);
}

function remember<Value>(values: Map<string, Value>, id: string, value: Value): void {
  values.set(id, value);
  if (values.size > MAX_REMEMBERED) values.delete(values.keys().next().value!);
}

/** Items of tools that the server runs itself are left out, with their results. */
function readItems(items: readonly Fields[]): readonly ChatMessage[] {
  const messages: ChatMessage[] = [];
  let reply: OpenReply | null = null;
  const endReply = () => {
    if (reply === null) return;
    const { text, ...said } = reply;
    messages.push(messageOf("assistant", text, said));
    reply = null;
  };
  for (const item of items) {
    const { type = "message", role } = item;
    const isReply = type === "reasoning" || type === "function_call" || (type === "message" && role === "assistant");
    if (isReply) {
      // Two texts without a call between them are two replies.
      if (type === "message" && reply !== null && reply.text !== "" && reply.calls.length === 0) endReply();
      reply = addToReply(reply ?? { text: "", calls: [], reasoning: "" }, item);
      continue;
    }
    if (type !== "message" && type !== "function_call_output") continue;
    endReply();
    if (type === "message") {
      messages.push(messageOf(role === "developer" ? "system" : textOr(role, "user"), textOf(item.content)));
    } else {
      const { call_id: id, output } = item;
      messages.push(messageOf("tool", textOf(output), typeof id === "string" ? { tool_call_id: id } : {}));
    }
  }
  endReply();
  return messages;
}

interface OpenReply {
  readonly text: string;
  readonly calls: readonly ChatToolCall[];
  readonly reasoning: string;
}

function addToReply(reply: OpenReply, item: Fields): OpenReply {
  switch (item.type) {
    case "reasoning": {
      const thoughts = [...listOf(item.summary), ...listOf(item.content)].map(({ text }) => textOr(text, ""));
      return { ...reply, reasoning: [reply.reasoning, ...thoughts].filter(Boolean).join("\n") };
    }
    case "function_call":
      return { ...reply, calls: [...reply.calls, callOf(item.call_id, item.name, item.arguments)] };
    default: {
      const said = textOf(item.content);
      return { ...reply, text: reply.text + (typeof said === "string" ? said : "") };
    }
  }
}

function textOf(content: unknown): NonNullable<ChatMessage["content"]> {
  return joinParts(content, TEXT_TYPES);
}
