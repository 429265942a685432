/** A conversation with a model: a message in, the reply out as it is written. */

import { ChatFormat, Conversation } from "../chat/conversation.ts";
import { IncrementalDecoder } from "../chat/tokenizer/incremental-decoder.ts";
import type { Tokenizer } from "../chat/tokenizer/tokenizer.ts";
import type { ChatMessage } from "../flow/chat-message.ts";
import type { Finish, Generate, Sampling } from "../generation/generate.ts";

/** Parts of a conversation with a model. */
export interface ChatParts {
  readonly generate: Generate;
  readonly tokenizer: Tokenizer;
  readonly sampling: Sampling;
  /** The system message; absent for none. */
  readonly system?: string;
}

/** Keeps what was said, as the very tokens that were sampled. */
export class Chat {
  readonly #parts: ChatParts;
  readonly #format: ChatFormat;
  #conversation: Conversation;

  constructor(parts: ChatParts) {
    this.#parts = parts;
    this.#format = new ChatFormat(parts.tokenizer);
    this.#conversation = this.#start();
  }

  /** Everything said so far. */
  get messages(): readonly ChatMessage[] {
    return this.#conversation.messages;
  }

  /** Forgets everything but the system message. */
  reset(): void {
    this.#conversation = this.#start();
  }

  /** Says something, passes the reply on as it comes, and resolves with why it ended. */
  async say(text: string, onText: (text: string) => void, signal?: AbortSignal): Promise<Finish> {
    const { generate, tokenizer, sampling } = this.#parts;
    const promptIds = await this.#conversation.ask([{ role: "user", content: text }]);
    const decoder = new IncrementalDecoder(tokenizer, { skipSpecialTokens: true });
    const reply = await generate({
      promptIds,
      sampling: { stopIds: tokenizer.stopIds, ...sampling },
      onTokens: ({ tokenIds }) => onText(decoder.push(tokenIds)),
      ...(signal !== undefined && { signal }),
    });
    onText(decoder.flush());
    if (reply.finish.kind === "failed") throw reply.finish.error;
    this.#conversation.answer({ promptIds, reply, replyText: this.#format.replyText(reply) });
    return reply.finish;
  }

  #start(): Conversation {
    const { system } = this.#parts;
    return new Conversation(this.#format, system === undefined ? [] : [{ role: "system", content: system }], undefined);
  }
}
