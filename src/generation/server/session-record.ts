/**
 * What is kept of an episode: its calls as exact tokens.
 *
 * A sample is a chain of turns in which every prompt extends the tokens before it, so it can be trained on as one
 * sequence. A prompt that breaks the chain starts a new sample; only its own replies count there, the rest is context.
 */
import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { Finish, SampledTokens } from "../generate.ts";

/** One reply of the model. */
export interface SessionTurn extends SampledTokens {
  /** All tokens that were given, those of earlier turns included. A view into the tokens of the sample. */
  readonly promptIds: Int32Array;
  readonly finish: Finish;
  /** When the call came, on the server's clock, and how long the client waited for this reply. */
  readonly startedMs: number;
  readonly generateMs: number;
  /** What was said, where the call came as messages and not as a text. */
  readonly chat?: TurnChat;
}

/** A turn in words. */
interface TurnChat {
  /** The messages that are new since the turn before, without its reply. */
  readonly messages: readonly ChatMessage[];
  /** Number of messages in the call. */
  readonly numMessages: number;
  readonly tools: readonly ChatTool[];
  readonly reply: ChatMessage;
}

export interface SessionSample {
  readonly turns: readonly SessionTurn[];
}

export type SessionEnd =
  | { readonly kind: "rewarded"; readonly reward: number; readonly metadata: Readonly<Record<string, unknown>> }
  | { readonly kind: "timed-out" }
  | { readonly kind: "deleted" };

/** A whole episode. */
export interface SessionRecord {
  readonly id: string;
  readonly samples: readonly SessionSample[];
  /** Calls that gave the client no usable reply: aborted or failed. They are in no sample. */
  readonly brokenTurns: readonly SessionTurn[];
  /** The limit that the calls since the last reply ran into: on turns, or of the context. */
  readonly refused: "turns" | "context" | null;
}

/** An episode that has ended, for the trainer. */
export interface FinishedSession extends SessionRecord {
  readonly end: SessionEnd;
}

/** The tokens of a sample, grown in place: the prompts of its turns are views and cost no copies. */
export class SampleTokens {
  /** Under which name the engine keeps the cache of this sample. */
  readonly cacheKey: string;
  readonly turns: SessionTurn[] = [];
  #buffer = new Int32Array(256);
  #text = { length: 0, text: "" };
  #length = 0;

  constructor(cacheKey: string) {
    this.cacheKey = cacheKey;
  }

  /** Prompt and reply of the last turn. */
  get ids(): Int32Array {
    return this.#buffer.subarray(0, this.#length);
  }

  /** What its tokens say. Decoded once, and again after each turn: a text prompt is compared with every sample. */
  textBy(decode: (ids: Int32Array) => string): string {
    if (this.#text.length !== this.#length) this.#text = { length: this.#length, text: decode(this.ids) };
    return this.#text.text;
  }

  /** Adds a turn whose prompt extends the tokens here. */
  add(turn: SessionTurn): void {
    this.#append(turn.promptIds, this.#length);
    const promptIds = this.ids;
    this.#append(turn.tokenIds, 0);
    this.turns.push({ ...turn, promptIds });
  }

  #append(ids: ArrayLike<number>, start: number): void {
    const length = this.#length + ids.length - start;
    if (length > this.#buffer.length) {
      const grown = new Int32Array(Math.max(length, 2 * this.#buffer.length));
      grown.set(this.ids);
      this.#buffer = grown;
    }
    for (let index = start; index < ids.length; index++) this.#buffer[this.#length++] = ids[index]!;
  }
}
