/** Answers of /v1/messages, whole and as events, in Anthropic's shapes. */
import type { ReplyPart } from "../../../chat/tool-calls/reply-part.ts";
import type { Finish } from "../../generate.ts";
import type { ChoiceResult, ChoiceUpdate, ReplyFormat, UsageFields } from "../reply-format.ts";
import { anthropicError } from "./anthropic-errors.ts";

interface MessagesFormatOptions {
  readonly id: string;
  readonly model: string;
  /** Fields that only this server has, such as what the session's prefix check found. */
  readonly extensions: object;
}

export function createMessagesFormat({ id, model, extensions }: MessagesFormatOptions): ReplyFormat {
  const head = { id, type: "message", role: "assistant", model };
  const blocks = new BlockEvents();
  const opening = ({ choice }: ChoiceUpdate) => {
    const usage = { input_tokens: choice.promptIds.length, output_tokens: 0 };
    const message = { ...head, content: [], stop_reason: null, stop_sequence: null, usage, ...extensions };
    return [{ type: "message_start", message }];
  };
  return {
    chunks: (update) => [
      ...(update.isFirst ? opening(update) : []),
      ...update.parts.flatMap((part) => blocks.push(part)),
    ],
    end: ([result], usage) => [
      ...blocks.close(),
      { type: "message_delta", delta: stopFields(result), usage: usageFields(usage) },
      { type: "message_stop" },
    ],
    failure: ({ type, message }) => anthropicError(type, message),
    whole: ([result], usage) => ({
      ...head,
      content: (result?.visible.parts ?? []).map(blockOf),
      ...stopFields(result),
      usage: usageFields(usage),
      ...extensions,
    }),
  };
}

/** Text and thinking come as they are written; a call comes when it is complete, in one delta. */
class BlockEvents {
  #numBlocks = 0;
  #open: "text" | "reasoning" | null = null;

  push(part: ReplyPart): object[] {
    if (part.kind !== "tool-call") return this.#write(part.kind, part.text);
    const closing = this.close();
    const index = this.#numBlocks++;
    const { id, function: called } = part.call;
    const partial_json = called.arguments;
    return [
      ...closing,
      { type: "content_block_start", index, content_block: { type: "tool_use", id, name: called.name, input: {} } },
      { type: "content_block_delta", index, delta: { type: "input_json_delta", partial_json } },
      { type: "content_block_stop", index },
    ];
  }

  close(): object[] {
    const kind = this.#open;
    if (kind === null) return [];
    this.#open = null;
    const index = this.#numBlocks++;
    const signing = { type: "content_block_delta", index, delta: { type: "signature_delta", signature: SIGNATURE } };
    return [...(kind === "reasoning" ? [signing] : []), { type: "content_block_stop", index }];
  }

  #write(kind: "text" | "reasoning", text: string): object[] {
    const closing = this.#open === kind ? [] : this.close();
    const index = this.#numBlocks;
    const content_block =
      kind === "text" ? { type: "text", text: "" } : { type: "thinking", thinking: "", signature: "" };
    const opening = this.#open === kind ? [] : [{ type: "content_block_start", index, content_block }];
    this.#open = kind;
    const delta = kind === "text" ? { type: "text_delta", text } : { type: "thinking_delta", thinking: text };
    return [...closing, ...opening, { type: "content_block_delta", index, delta }];
  }
}

/** Clients send a thought back only if it is signed. */
const SIGNATURE = "reroll";

function blockOf(part: ReplyPart): object {
  if (part.kind === "text") return { type: "text", text: part.text };
  if (part.kind === "reasoning") return { type: "thinking", thinking: part.text, signature: SIGNATURE };
  const { id, function: called } = part.call;
  return { type: "tool_use", id, name: called.name, input: inputOf(called.arguments) };
}

/** Arguments that are not JSON stay the text they are. */
function inputOf(given: string): unknown {
  try {
    return JSON.parse(given);
  } catch {
    return given;
  }
}

function stopFields(result: ChoiceResult | undefined): object {
  if (result === undefined) return { stop_reason: null, stop_sequence: null };
  const { finish } = result.generation;
  const isByText = finish.kind === "stop" && finish.by === "string";
  const stop_reason = stopReason(finish, result.visible.toolCalls.length > 0);
  return { stop_reason, stop_sequence: isByText ? finish.text : null };
}

function stopReason(finish: Finish, hasToolCalls: boolean): string {
  if (finish.kind !== "stop") return "max_tokens";
  if (hasToolCalls) return "tool_use";
  return finish.by === "string" ? "stop_sequence" : "end_turn";
}

/** Anthropic counts tokens that were found in the cache apart from the others. */
function usageFields({ prompt_tokens, completion_tokens, prompt_tokens_details }: UsageFields): object {
  const { cached_tokens } = prompt_tokens_details;
  return {
    input_tokens: prompt_tokens - cached_tokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached_tokens,
    output_tokens: completion_tokens,
  };
}
