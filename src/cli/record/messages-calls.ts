/** Reads calls of /messages, Anthropic's API: blocks become messages, calls and results as chat templates read them. */
import type { ChatMessage } from "../../flow/chat-message.ts";
import {
  type AnsweredChat,
  callOf,
  type Fields,
  fieldsOf,
  functionTool,
  joinParts,
  listOf,
  messageOf,
  parseJson,
  type ReadExchange,
  textOr,
} from "./exchange.ts";

export const readMessagesCall: ReadExchange = ({ messages, system, tools, model }, answer) => {
  const answered = answer.kind === "whole" ? readWhole(answer.body) : join(answer.events);
  if (!Array.isArray(messages) || messages.length === 0 || answered === undefined) return undefined;
  const instructions = joinParts(system);
  const asked = {
    messages: [
      ...(instructions === "" ? [] : [messageOf("system", instructions)]),
      ...listOf(messages).flatMap(readMessage),
    ],
    tools: listOf(tools)
      .filter(({ type = "custom" }) => type === "custom")
      .map(({ name, description, input_schema }) => functionTool(name, description, input_schema)),
    model: textOr(model, null),
  };
  return { asked, answered };
};

function readWhole({ content, stop_reason: finish, usage = null }: Fields): AnsweredChat | undefined {
  if (!Array.isArray(content)) return undefined;
  return { reply: readReply(listOf(content)), finish: textOr(finish, null), usage };
}

/** Blocks come one after the other, each in pieces; the input of a call comes as JSON text. */
function join(events: readonly Fields[]): AnsweredChat | undefined {
  const blocks = new Map<unknown, { start: Fields; text: string; thinking: string; json: string }>();
  let finish: string | null = null;
  let usage: Fields = {};
  for (const event of events) {
    const block = blocks.get(event.index);
    const delta = fieldsOf(event.delta);
    if (event.type === "message_start") usage = fieldsOf(fieldsOf(event.message).usage);
    if (event.type === "content_block_start") {
      const start = fieldsOf(event.content_block);
      blocks.set(event.index, { start, text: textOr(start.text, ""), thinking: textOr(start.thinking, ""), json: "" });
    }
    if (event.type === "content_block_delta" && block !== undefined) {
      block.text += textOr(delta.text, "");
      block.thinking += textOr(delta.thinking, "");
      block.json += textOr(delta.partial_json, "");
    }
    if (event.type === "message_delta") {
      finish = textOr(delta.stop_reason, finish);
      usage = { ...usage, ...fieldsOf(event.usage) };
    }
  }
  if (!events.some(({ type }) => type === "message_stop")) return undefined;
  const whole = [...blocks.values()].map(({ start, text, thinking, json }) => ({
    ...{ ...start, text, thinking },
    ...(json !== "" && { input: parseJson(json) }),
  }));
  return { reply: readReply(whole), finish, usage };
}

function readMessage({ role, content }: Fields): readonly ChatMessage[] {
  if (!Array.isArray(content)) return [messageOf(textOr(role, "user"), textOr(content, ""))];
  return role === "assistant" ? [readReply(listOf(content))] : readUser(listOf(content));
}

function readReply(blocks: readonly Fields[]): ChatMessage {
  const textOf = (type: string, field: string) =>
    blocks.map((block) => (block.type === type ? textOr(block[field], "") : "")).join("");
  const calls = blocks.filter(({ type }) => type === "tool_use");
  return messageOf("assistant", textOf("text", "text"), {
    calls: calls.map(({ id, name, input }) => callOf(id, name, JSON.stringify(input ?? {}))),
    reasoning: textOf("thinking", "thinking"),
  });
}

/** Results of tools are messages of their own; what is said before and behind them stays in its place. */
function readUser(blocks: readonly Fields[]): readonly ChatMessage[] {
  const said: { readonly result: Fields | null; readonly blocks: Fields[] }[] = [];
  for (const block of blocks) {
    const last = said.at(-1);
    if (block.type === "tool_result") said.push({ result: block, blocks: [] });
    else if (last === undefined || last.result !== null) said.push({ result: null, blocks: [block] });
    else last.blocks.push(block);
  }
  return said.map(({ result, blocks: parts }) => {
    if (result === null) return messageOf("user", joinParts(parts));
    const { tool_use_id: id, content } = result;
    return messageOf("tool", joinParts(content), typeof id === "string" ? { tool_call_id: id } : {});
  });
}
