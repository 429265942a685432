/**
 * Replies that were given, findable by what the client saw of them.
 *
 * When an agent sends a reply back as part of its history, its own tokens are put into the prompt; it is not encoded
 * again. Bounded: the reply unused for longest is forgotten first.
 */
import type { ChatMessage, ChatToolCall } from "../flow/chat-message.ts";

export interface RecordedReply {
  readonly sessionId: string | undefined;
  /** Identifies the prompt that it answers. */
  readonly promptKey: PromptKey;
  /** The text of the reply, without the end token. */
  readonly text: string;
  /** The end token's text; "" when the reply ended without one. */
  readonly endText: string;
  readonly tokenIds: Int32Array;
  /** The ids of its tool calls. */
  readonly callIds: readonly string[];
}

interface PromptKey {
  readonly length: number;
  readonly hash: number;
}

/** The part of a reply that a client saw and sends back. */
export interface VisibleReply {
  readonly content: string;
  readonly toolCalls: readonly ChatToolCall[];
}

const MAX_TOKENS = 4_000_000;
/** The most replies with the same visible content that are kept. */
const MAX_ALIKE = 16;

export class ReplyIndex {
  /** Replies keyed by session and visible content, and once more by content alone. Newest last. */
  readonly #replies = new Map<string, RecordedReply[]>();
  #numTokens = 0;

  record(visible: VisibleReply, reply: RecordedReply): void {
    const seen = keyOf(visible);
    this.#add(seen, reply);
    if (reply.sessionId !== undefined) this.#add(ownKey(reply.sessionId, seen), reply);
    this.#forget();
  }

  /** The recorded replies that look like this assistant message: same call ids first, then the session's own, then the newest. */
  find(sessionId: string | undefined, message: ChatMessage): readonly RecordedReply[] {
    const seen = keyOf({ content: contentText(message.content), toolCalls: message.tool_calls ?? [] });
    const own = sessionId === undefined ? [] : (this.#replies.get(ownKey(sessionId, seen)) ?? []);
    const found = [...own.toReversed(), ...(this.#replies.get(seen) ?? []).toReversed()];
    const callIds = new Set(message.tool_calls?.map((call) => call.id));
    const isSameCall = (reply: RecordedReply) => reply.callIds.some((id) => callIds.has(id));
    return [...found.filter(isSameCall), ...found.filter((reply) => !isSameCall(reply))];
  }

  #add(key: string, reply: RecordedReply): void {
    const alike = this.#replies.get(key) ?? [];
    // Insertion order is the order of last use.
    this.#replies.delete(key);
    this.#replies.set(key, alike);
    alike.push(reply);
    this.#numTokens += costOf(reply);
    if (alike.length > MAX_ALIKE) this.#numTokens -= costOf(alike.shift()!);
  }

  #forget(): void {
    for (const [key, alike] of this.#replies) {
      if (this.#numTokens <= MAX_TOKENS) return;
      for (const reply of alike) this.#numTokens -= costOf(reply);
      this.#replies.delete(key);
    }
  }
}

function ownKey(sessionId: string, seen: string): string {
  return `${sessionId} ${seen}`;
}

/** A running hash of tokens, so that a prompt can be recognized without keeping it. FNV-1a over 32-bit words. */
export class PromptHash {
  #hash = 0x811c9dc5;
  #length = 0;

  add(ids: ArrayLike<number>): void {
    for (let index = 0; index < ids.length; index++) this.#hash = Math.imul(this.#hash ^ ids[index]!, 0x01000193);
    this.#length += ids.length;
  }

  get key(): PromptKey {
    return { length: this.#length, hash: this.#hash };
  }
}

export function promptKeyOf(promptIds: ArrayLike<number>): PromptKey {
  const hash = new PromptHash();
  hash.add(promptIds);
  return hash.key;
}

/** The text of a message's content. */
function contentText(content: ChatMessage["content"]): string {
  if (content === null || content === undefined) return "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

/** Every reply costs something, however short. */
function costOf(reply: RecordedReply): number {
  return reply.tokenIds.length + 64;
}

/** Ids of calls are left out: some clients give their own. Arguments count as values, because clients write them anew. */
function keyOf({ content, toolCalls }: VisibleReply): string {
  const calls = toolCalls.map((call) => [call.function.name, argumentValue(call.function.arguments)]);
  return JSON.stringify([content, calls]);
}

function argumentValue(value: ChatToolCall["function"]["arguments"]): unknown {
  if (typeof value !== "string") return value;
  try {
    return JSON.parse(value);
  } catch {
    // Not JSON: it counts as the text it is.
    return value;
  }
}
