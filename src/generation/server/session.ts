/** One open episode: which sample each call goes on with, and the record of its turns. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import { findPrefix } from "../../flow/prefix-check.ts";
import { tokensOnly } from "../../flow/sampled-tokens.ts";
import type { Generation } from "../generate.ts";
import { SampleTokens, type SessionRecord, type SessionTurn } from "./session-record.ts";

/** What the prompt of a call did with the tokens that were there. */
export type PrefixOutcome =
  | { readonly kind: "new" }
  | { readonly kind: "extended"; readonly numNew: number }
  /** `template`: it rendered an earlier reply differently from how it was written. `history`: the client sent other messages. */
  | { readonly kind: "forked"; readonly reason: "template" | "history"; readonly at: number };

export interface CallPrompt {
  readonly promptIds: Int32Array;
  /**
   * Whether the client sent earlier replies along, so that a prompt that extends nothing is a fork and not a new start.
   * Undefined where that cannot be seen: then a prompt that agrees with all of an earlier first prompt is a fork.
   */
  readonly hasHistory: boolean | undefined;
  readonly hasChangedReplies: boolean;
  /** The call in words, where it came as messages. */
  readonly chat?: { readonly messages: readonly ChatMessage[]; readonly tools: readonly ChatTool[] };
}

/** A call between its start and the end of its replies. */
export interface SessionCall {
  readonly prefix: PrefixOutcome;
  /** Under which name the engine keeps the cache of this choice. */
  cacheKey(choice: number): string;
  /** @param reply the reply as the client reads it */
  record(choice: number, generation: Generation, reply: ChatMessage): void;
  /** Must be called once, whatever happened. */
  end(): void;
}

export class Session {
  readonly id: string;
  lastUsedMs: number;
  numCallsRunning = 0;
  readonly #maxTurns: number;
  readonly #samples: SampleTokens[] = [];
  readonly #brokenTurns: SessionTurn[] = [];
  #numTurns = 0;
  #refused: SessionRecord["refused"] = null;

  constructor(id: string, maxTurns: number, nowMs: number) {
    this.id = id;
    this.#maxTurns = maxTurns;
    this.lastUsedMs = nowMs;
  }

  /** @param clock milliseconds */
  begin(prompt: CallPrompt, numChoices: number, clock: () => number): SessionCall {
    const firstTurn = this.#takeTurns(numChoices);
    const { prefix, continued } = this.#match(prompt);
    const lengthThere = continued?.ids.length;
    const newKey = (choice: number) => `${this.id}#${firstTurn + choice}`;
    const startedMs = clock();
    this.numCallsRunning++;
    this.lastUsedMs = startedMs;
    return {
      prefix,
      cacheKey: (choice) => (choice === 0 ? continued?.cacheKey : undefined) ?? newKey(choice),
      record: (choice, generation, reply) => {
        // Another call may have gone on with the same sample since this one began.
        const isStillThere = choice === 0 && continued?.ids.length === lengthThere;
        const sample = isStillThere ? continued : undefined;
        const { promptIds, chat } = prompt;
        const { finish } = generation;
        const times = { startedMs, generateMs: clock() - startedMs };
        const words = chat && { chat: { ...chat, ...newMessages(chat.messages, sample?.turns.at(-1)), reply } };
        this.#record({ ...tokensOnly(generation), promptIds, finish, ...times, ...words }, sample, newKey(choice));
      },
      end: () => {
        this.numCallsRunning--;
        this.lastUsedMs = clock();
      },
    };
  }

  /** Notes that a call got no reply because of this limit. */
  refuse(limit: "turns" | "context"): void {
    this.#refused = limit;
  }

  /** The longest sample that a text goes on from: its tokens, and the rest of the text. */
  findStart(text: string, decode: (ids: Int32Array) => string): { ids: Int32Array; rest: string } | undefined {
    let longest: SampleTokens | undefined;
    for (const sample of this.#samples) {
      const isLonger = sample.ids.length > (longest?.ids.length ?? 0);
      if (isLonger && text.startsWith(sample.textBy(decode))) longest = sample;
    }
    return longest && { ids: longest.ids, rest: text.slice(longest.textBy(decode).length) };
  }

  /** Tokens that its record holds, prompts and replies. */
  get numTokens(): number {
    const broken = this.#brokenTurns.reduce(
      (sum, { promptIds, tokenIds }) => sum + promptIds.length + tokenIds.length,
      0,
    );
    return this.#samples.reduce((sum, { ids }) => sum + ids.length, broken);
  }

  record(): SessionRecord {
    return {
      id: this.id,
      samples: this.#samples.map(({ turns }) => ({ turns: [...turns] })),
      brokenTurns: [...this.#brokenTurns],
      refused: this.#refused,
    };
  }

  #takeTurns(numChoices: number): number {
    if (this.#numTurns + numChoices > this.#maxTurns) {
      this.refuse("turns");
      throw new RerollError(
        "SESSION_FULL",
        `Session ${this.id} has ${this.#numTurns} turns, and ${this.#maxTurns} are allowed. Post its reward, and start another one.`,
        { param: "x-reroll-session" },
      );
    }
    this.#numTurns += numChoices;
    return this.#numTurns - numChoices;
  }

  #match(prompt: CallPrompt): { prefix: PrefixOutcome; continued: SampleTokens | undefined } {
    const match = findPrefix(
      this.#samples.map(({ ids }) => ids),
      prompt.promptIds,
    );
    if (match.kind === "extends") {
      return { prefix: { kind: "extended", numNew: match.numNew }, continued: this.#samples[match.index] };
    }
    const firstPrompt = this.#samples[match.index]?.turns[0]?.promptIds.length ?? Infinity;
    const isFork = this.#samples.length > 0 && (prompt.hasHistory ?? match.at >= firstPrompt);
    if (!isFork) return { prefix: { kind: "new" }, continued: undefined };
    const reason = prompt.hasChangedReplies ? "template" : "history";
    return { prefix: { kind: "forked", reason, at: match.at }, continued: undefined };
  }

  #record(turn: SessionTurn, continued: SampleTokens | undefined, key: string): void {
    if (turn.finish.kind === "aborted" || turn.finish.kind === "failed") {
      this.#brokenTurns.push(turn);
      return;
    }
    this.#refused = null;
    const sample = continued ?? new SampleTokens(key);
    if (continued === undefined) this.#samples.push(sample);
    sample.add(turn);
  }
}

/** The messages after those of the turn before and its reply, which one client sends as one message and another as several. */
function newMessages(messages: readonly ChatMessage[], before: SessionTurn | undefined) {
  let numKnown = before?.chat?.numMessages ?? 0;
  if (numKnown > 0) while (messages[numKnown]?.role === "assistant") numKnown++;
  return { messages: messages.slice(numKnown), numMessages: messages.length };
}
