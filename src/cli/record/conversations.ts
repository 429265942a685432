/**
 * Calls joined into conversations: a call whose messages go on from an earlier one and its reply belongs to it.
 *
 * In: calls with their replies, in the order of their ends. Out: each conversation once, as a row of data, when it has been silent for
 * `idleMs` or everything is over. Until then it is in memory only.
 */
import { createHash } from "node:crypto";
import type { ChatMessage } from "../../flow/chat-message.ts";
import type { AnsweredChat, AskedChat } from "./exchange.ts";

/** One call, as its row tells it. */
interface CallRow {
  /** When it came, as ISO 8601. */
  readonly startedAt: string;
  /** Until the first byte of the answer, and until the last. */
  readonly firstByteMs: number;
  readonly ms: number;
  readonly finish: string | null;
  readonly usage: unknown;
}

/** A conversation: a line of the dataset. `messages` end with the last reply; `opening` are those before the first. */
interface ConversationRow {
  readonly id: string;
  readonly messages: readonly ChatMessage[];
  readonly opening: readonly ChatMessage[];
  readonly tools: readonly unknown[];
  readonly model: string | null;
  readonly calls: readonly CallRow[];
}

interface ConversationsParts {
  readonly write: (row: ConversationRow) => void;
  readonly idleMs: number;
  readonly newId: () => string;
}

interface Open {
  readonly row: ConversationRow;
  readonly endedAtMs: number;
}

export class Conversations {
  readonly #parts: ConversationsParts;
  /** By the digest of all their messages. */
  readonly #open = new Map<string, Open>();
  #numCalls = 0;
  #numWritten = 0;

  constructor(parts: ConversationsParts) {
    this.#parts = parts;
  }

  get numCalls(): number {
    return this.#numCalls;
  }

  get numWritten(): number {
    return this.#numWritten;
  }

  add(
    asked: AskedChat,
    { reply, finish, usage }: AnsweredChat,
    times: Omit<CallRow, "finish" | "usage">,
    nowMs: number,
  ): void {
    this.#numCalls++;
    const digests = digestsOf([...asked.messages, reply]);
    const before = digests.slice(0, -1).findLast((digest) => this.#open.has(digest));
    const known = before === undefined ? undefined : this.#open.get(before)?.row;
    if (before !== undefined) this.#open.delete(before);
    const firstReply = asked.messages.findIndex(({ role }) => role === "assistant");
    const row = {
      id: known?.id ?? this.#parts.newId(),
      messages: [...asked.messages, reply],
      opening: firstReply < 0 ? asked.messages : asked.messages.slice(0, firstReply),
      tools: asked.tools,
      model: asked.model,
      calls: [...(known?.calls ?? []), { ...times, finish, usage }],
    };
    const key = digests.at(-1)!;
    // The very same conversation twice, as with greedy sampling: the first one is over.
    this.#close(key);
    this.#open.set(key, { row, endedAtMs: nowMs });
  }

  /** Writes those that have been silent for long enough. */
  closeIdle(nowMs: number): void {
    for (const [key, { endedAtMs }] of this.#open) if (nowMs - endedAtMs >= this.#parts.idleMs) this.#close(key);
  }

  closeAll(): void {
    for (const key of this.#open.keys()) this.#close(key);
  }

  #close(key: string): void {
    const open = this.#open.get(key);
    if (open === undefined) return;
    this.#open.delete(key);
    this.#numWritten++;
    this.#parts.write(open.row);
  }
}

/** For each message, a digest of everything up to it. Only what ends with a reply can be a conversation so far. */
function digestsOf(messages: readonly ChatMessage[]): readonly string[] {
  let digest = "";
  return messages.flatMap((message) => {
    // Reasoning is not sent back by most clients.
    const { reasoning_content: _, ...said } = message;
    digest = createHash("sha256").update(digest).update(JSON.stringify(said)).digest("base64");
    return message.role === "assistant" ? [digest] : [];
  });
}
