/**
 * From the tokens of a reply to what a client sees of it: text and tool calls.
 *
 * In: tokens as they come. Out: parts, each as soon as it is certain. Special tokens, the token that ended the reply and
 * the stop string are not shown.
 */

import type { Finish } from "../flow/finish.ts";
import type { RecordedReply, VisibleReply } from "./reply-index.ts";
import { StopTextCutter } from "./stop-text-cutter.ts";
import { IncrementalDecoder } from "./tokenizer/incremental-decoder.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";
import { addPart, type ReplyPart, type ToolCall, ToolCallReader } from "./tool-calls.ts";

interface ReplyReaderOptions {
  readonly tokenizer: Tokenizer;
  readonly stopIds: readonly number[];
  readonly stopStrings: readonly string[];
  /** Absent when tool calls are text like any other. */
  readonly newCallId?: () => string;
}

/** What a client sees of a reply: its text and its calls apart, and both in the order they came. */
export interface ReadReply extends VisibleReply {
  readonly toolCalls: readonly ToolCall[];
  readonly parts: readonly ReplyPart[];
}

type WrittenReply = Pick<RecordedReply, "text" | "endText" | "tokenIds" | "callIds">;

export class ReplyReader {
  readonly #tokenizer: Tokenizer;
  readonly #stopIds: ReadonlySet<number>;
  readonly #decoder: IncrementalDecoder;
  readonly #cutter: StopTextCutter;
  readonly #toolCalls: ToolCallReader | undefined;
  #content = "";
  readonly #calls: ToolCall[] = [];
  readonly #parts: ReplyPart[] = [];

  constructor({ tokenizer, stopIds, stopStrings, newCallId }: ReplyReaderOptions) {
    this.#tokenizer = tokenizer;
    this.#stopIds = new Set(stopIds);
    this.#decoder = new IncrementalDecoder(tokenizer, { skipSpecialTokens: true });
    this.#cutter = new StopTextCutter(stopStrings);
    this.#toolCalls = newCallId && new ToolCallReader(newCallId);
  }

  push(tokenIds: Iterable<number>): readonly ReplyPart[] {
    let text = "";
    for (const tokenId of tokenIds) if (!this.#stopIds.has(tokenId)) text += this.#decoder.push(tokenId);
    return this.#take(this.#cutter.push(text));
  }

  end(): readonly ReplyPart[] {
    const parts = this.#take(this.#cutter.push(this.#decoder.flush()) + this.#cutter.end());
    return [...parts, ...this.#keep(this.#toolCalls?.end() ?? [])];
  }

  /** The content that the client has seen so far. */
  get visible(): ReadReply {
    return { content: this.#content, toolCalls: this.#calls, parts: this.#parts };
  }

  #take(text: string): readonly ReplyPart[] {
    if (this.#toolCalls !== undefined) return this.#keep(this.#toolCalls.push(text));
    return this.#keep(text === "" ? [] : [{ kind: "text", text }]);
  }

  #keep(parts: readonly ReplyPart[]): readonly ReplyPart[] {
    for (const part of parts) {
      if (part.kind === "text") this.#content += part.text;
      else this.#calls.push(part.call);
      addPart(this.#parts, part);
    }
    return parts;
  }

  /** The reply as the model wrote it, for later prompts. Undefined when the client did not get to see all of it. */
  writtenReply(tokenIds: Int32Array, finish: Finish): WrittenReply | undefined {
    const callIds = this.#calls.map((call) => call.id);
    switch (finish.kind) {
      case "aborted":
      case "failed":
        return undefined;
      case "length":
        return { text: this.#tokenizer.decode(tokenIds), endText: "", tokenIds, callIds };
      case "stop": {
        if (finish.by === "string") return undefined;
        const text = this.#tokenizer.decode(tokenIds.subarray(0, -1));
        return { text, endText: this.#tokenizer.decode([finish.tokenId]), tokenIds, callIds };
      }
    }
  }
}
