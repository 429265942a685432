/** Reads calls of /chat/completions. Unknown fields of messages are left out: what is kept is what chat templates read. */
import type { ChatMessage } from "../../flow/chat-message.ts";
import {
  type AnsweredChat,
  callOf,
  type Fields,
  fieldsOf,
  joinParts,
  listOf,
  messageOf,
  type ReadExchange,
  textOr,
} from "./exchange.ts";

export const readChatCall: ReadExchange = ({ messages, tools, model }, answer) => {
  const answered = answer.kind === "whole" ? readWhole(answer.body) : answer.isDone ? join(answer.events) : undefined;
  if (!Array.isArray(messages) || messages.length === 0 || answered === undefined) return undefined;
  const asked = { messages: listOf(messages).map(readMessage), tools: Array.isArray(tools) ? tools : [] };
  return { asked: { ...asked, model: textOr(model, null) }, answered };
};

function readWhole({ choices, usage = null }: Fields): AnsweredChat | undefined {
  const { message, finish_reason: finish } = listOf(choices)[0] ?? {};
  if (message === undefined) return undefined;
  return { reply: readMessage({ role: "assistant", ...fieldsOf(message) }), finish: textOr(finish, null), usage };
}

/** The first choice of a streamed answer, joined from its pieces. */
function join(events: readonly Fields[]): AnsweredChat {
  let [content, reasoning] = ["", ""];
  let finish: string | null = null;
  let usage: unknown = null;
  const calls = new Map<number, { id: string; name: string; arguments: string }>();
  for (const { choices, usage: used } of events) {
    usage = used ?? usage;
    const first = listOf(choices).find(({ index = 0 }) => index === 0) ?? {};
    const { content: piece, reasoning_content: thought, tool_calls: pieces } = fieldsOf(first.delta);
    content += textOr(piece, "");
    reasoning += textOr(thought, "");
    finish = textOr(first.finish_reason, finish);
    for (const call of listOf(pieces)) {
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
  const called = [...calls.values()].map(({ id, name, arguments: given }) => callOf(id, name, given));
  return { reply: messageOf("assistant", content, { calls: called, reasoning }), finish, usage };
}

function readMessage({ role, content, name, tool_calls, tool_call_id, reasoning_content }: Fields): ChatMessage {
  const calls = listOf(tool_calls).map(({ id, function: called }) => {
    const { name: callee, arguments: given } = fieldsOf(called);
    return callOf(id, callee, given);
  });
  return messageOf(textOr(role, "user"), joinParts(content), {
    calls,
    reasoning: textOr(reasoning_content, ""),
    ...(typeof name === "string" && { name }),
    ...(typeof tool_call_id === "string" && { tool_call_id }),
  });
}
