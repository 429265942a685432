/**
 * The conversation of one episode, as messages and as prompt tokens.
 *
 * In: messages and the model's replies with their tokens. Out: the prompt of the next turn, in which earlier replies are the
 * very tokens that were sampled. Where the chat template would not let them stand, the prompt does not extend the tokens
 * before, and the sample builder forks there.
 */

import type { ChatMessage, ChatTool } from "../flow/chat-message.ts";
import type { Turn } from "../flow/trajectory.ts";
import { buildChatPrompt } from "./chat-prompt.ts";
import { PromptEncoder } from "./prompt-encoder.ts";
import { promptKeyOf, type RecordedReply } from "./reply-index.ts";
import type { ChatOptions } from "./template/chat-template.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";

/** Whether the model sees the whole conversation, or the instructions and the latest observation alone. */
type TurnContext = "conversation" | "turn";

export interface ChatFormatOptions {
  /** Whether the model sees the whole conversation or only the latest observation. Default "conversation". */
  readonly context?: TurnContext;
  /** Options for the chat template. */
  readonly chat?: ChatOptions;
}

/** Turns conversations into tokens. All episodes of a run share one, so that their common text is encoded once. */
export class ChatFormat {
  readonly tokenizer: Tokenizer;
  readonly context: TurnContext;
  readonly chat: ChatOptions;
  readonly encoder: PromptEncoder;
  readonly #openings = new Map<string, Promise<Int32Array>>();

  constructor(tokenizer: Tokenizer, { context = "conversation", chat = {} }: ChatFormatOptions = {}) {
    this.tokenizer = tokenizer;
    this.context = context;
    this.chat = chat;
    this.encoder = new PromptEncoder(tokenizer);
  }

  /** A prompt without replies in it, encoded once for all samples of a group. */
  opening(key: string, make: () => Promise<Int32Array>): Promise<Int32Array> {
    const known = this.#openings.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#openings.set(key, made);
    if (this.#openings.size > MAX_OPENINGS) this.#openings.delete(this.#openings.keys().next().value!);
    return made;
  }

  /** The text of a reply, without the token that ended it. */
  replyText({ tokenIds }: { readonly tokenIds: Int32Array }): string {
    return this.tokenizer.decode(this.#endsWithStop(tokenIds) ? tokenIds.subarray(0, -1) : tokenIds);
  }

  /** The text of the token that ended a reply; "" if a limit ended it. */
  endText(tokenIds: Int32Array): string {
    return this.#endsWithStop(tokenIds) ? this.tokenizer.decode([tokenIds.at(-1)!]) : "";
  }

  /** Only special tokens are marks; a word that ends replies is part of what was said. */
  #endsWithStop(tokenIds: Int32Array): boolean {
    const last = tokenIds.at(-1);
    return last !== undefined && this.tokenizer.stopIds.includes(last) && this.tokenizer.specialIds.has(last);
  }
}

/** Enough for the groups that start at the same time. */
const MAX_OPENINGS = 256;

/** Stands for a reply while a template is rendered; from the private use area of Unicode, which texts do not use. */
const MARK = "\ue000reply\ue001";

export class Conversation {
  readonly #format: ChatFormat;
  readonly #instructions: readonly ChatMessage[];
  readonly #tools: readonly ChatTool[] | undefined;
  readonly #lead: string;
  readonly #replies = new Map<ChatMessage, readonly RecordedReply[]>();
  #messages: readonly ChatMessage[];

  /** @param lead text that stands before the first message of every prompt, and is no part of the conversation */
  constructor(
    format: ChatFormat,
    instructions: readonly ChatMessage[],
    tools: readonly ChatTool[] | undefined,
    lead = "",
  ) {
    this.#format = format;
    this.#instructions = instructions;
    this.#tools = tools;
    this.#lead = lead;
    this.#messages = instructions;
  }

  /** Everything said so far, whatever the model is shown of it. */
  get messages(): readonly ChatMessage[] {
    return this.#messages;
  }

  /**
   * Adds what the agent sees next, and gives the prompt for its answer. Rejects where the chat template does not take the messages.
   *
   * @param maxTokens a longer prompt may be cut off somewhere behind this
   * @param context what the model is shown; default: as the format says
   */
  async ask(
    messages: readonly ChatMessage[],
    maxTokens = Number.MAX_SAFE_INTEGER,
    context: TurnContext = this.#format.context,
  ): Promise<Int32Array> {
    this.#messages = [...this.#messages, ...messages];
    const { tokenizer, encoder, chat } = this.#format;
    const said = context === "turn" ? [...this.#instructions, ...messages] : this.#messages;
    const shown = this.#lead === "" ? said : ledBy(this.#lead, said);
    const options = { addGenerationPrompt: true, ...(this.#tools && { tools: this.#tools }), ...chat };
    const replies = { find: (_: unknown, message: ChatMessage) => this.#replies.get(message) ?? [] };
    const make = async () => {
      const parts = { tokenizer, encoder, replies, mark: MARK };
      return (await buildChatPrompt(parts, shown, options, { sessionId: undefined, maxTokens })).promptIds;
    };
    if (shown.some(({ role }) => role === "assistant")) return make();
    return this.#format.opening(JSON.stringify([shown, this.#tools, maxTokens]), make);
  }

  /** Adds the reply of the model, whose tokens later prompts will contain. */
  answer({ promptIds, reply, replyText }: Pick<Turn, "promptIds" | "reply" | "replyText">): void {
    const message: ChatMessage = { role: "assistant", content: replyText };
    const recorded: RecordedReply = {
      sessionId: undefined,
      promptKey: promptKeyOf(promptIds),
      text: replyText,
      endText: this.#format.endText(reply.tokenIds),
      tokenIds: reply.tokenIds,
      callIds: [],
    };
    this.#replies.set(message, [recorded]);
    this.#messages = [...this.#messages, message];
  }
}

/** The same messages with a text before the first of them: a message of its own is more than many templates take. */
function ledBy(lead: string, [first, ...others]: readonly ChatMessage[]): readonly ChatMessage[] {
  if (first === undefined) return [{ role: "user", content: lead }];
  const { content } = first;
  const isText = typeof content === "string" || content === null || content === undefined;
  const led = isText ? [lead, content ?? ""].filter(Boolean).join("\n\n") : [{ type: "text", text: lead }, ...content];
  return [{ ...first, content: led }, ...others];
}
