/**
 * From the tokens of a reply to what a client sees of it: text and tool calls.
 *
 * In: tokens as they come. Out: parts, each as soon as it is certain. Special tokens, the token that ended the reply and
 * the stop string are not shown.
 */

import type { ChatTool } from "../flow/chat-message.ts";
import type { Finish } from "../flow/finish.ts";
import type { RecordedReply, VisibleReply } from "./reply-index.ts";
import { StopTextCutter } from "./stop-text-cutter.ts";
import { ThinkingReader, thinkingTagsOf } from "./thinking.ts";
import { IncrementalDecoder } from "./tokenizer/incremental-decoder.ts";
import type { Tokenizer } from "./tokenizer/tokenizer.ts";
import { addPart, type ReplyPart, type ToolCall } from "./tool-calls/reply-part.ts";
import { toolCallFormatOf, toolCallFormats } from "./tool-calls/table.ts";
import type { ArgumentTypes } from "./tool-calls/tool-call-format.ts";
import { ToolCallReader } from "./tool-calls/tool-call-reader.ts";

interface ReplyReaderOptions {
  readonly tokenizer: Tokenizer;
  readonly stopIds: readonly number[];
  readonly stopStrings: readonly string[];
  /** Absent when tool calls are text like any other. */
  readonly newCallId?: () => string;
  /** The tools that may be called, whose schemas say what bare arguments are. */
  readonly tools?: readonly ChatTool[];
  /** Whether thinking is kept apart from what is said. Default false: it is text like any other. */
  readonly separatesThinking?: boolean;
  /** The tokens that the reply follows; they may have opened its thinking. */
  readonly promptIds?: Int32Array;
}

/** What a client sees of a reply: its text and its calls apart, and both in the order they came. */
export interface ReadReply extends VisibleReply {
  /** What the model thought before it spoke; "" where that is not kept apart. */
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  /** Calls that could not be read, and are in the content as they were written. */
  readonly numBrokenCalls: number;
  readonly parts: readonly ReplyPart[];
}

type WrittenReply = Pick<RecordedReply, "text" | "endText" | "tokenIds" | "callIds">;

export class ReplyReader {
  readonly #tokenizer: Tokenizer;
  readonly #stopIds: ReadonlySet<number>;
  readonly #decoder: IncrementalDecoder;
  readonly #cutter: StopTextCutter;
  readonly #thinking: ThinkingReader | undefined;
  readonly #toolCalls: ToolCallReader | undefined;
  /** Special tokens that tool calls and thinking are recognized by. */
  readonly #marks: ReadonlyMap<number, string>;
  #content = "";
  #reasoning = "";
  readonly #calls: ToolCall[] = [];
  readonly #parts: ReplyPart[] = [];

  constructor(options: ReplyReaderOptions) {
    const { tokenizer, stopIds, stopStrings, newCallId, separatesThinking = false, promptIds } = options;
    this.#tokenizer = tokenizer;
    this.#stopIds = new Set(stopIds);
    this.#decoder = new IncrementalDecoder(tokenizer, { skipSpecialTokens: true });
    this.#cutter = new StopTextCutter(stopStrings);
    const format = toolCallFormats[toolCallFormatOf(tokenizer)];
    const tags = separatesThinking ? thinkingTagsOf(tokenizer.chatTemplates.get("default") ?? "") : undefined;
    const isOpen = tags !== undefined && endOf(tokenizer, promptIds).endsWith(tags.open);
    this.#thinking = tags && new ThinkingReader(tags, isOpen);
    this.#toolCalls = newCallId && new ToolCallReader(newCallId, format, argumentTypes(options.tools ?? []));
    const marks = newCallId === undefined && tags === undefined ? [] : [...format.marks, tags?.open, tags?.close];
    this.#marks = marksOf(tokenizer, marks);
  }

  push(tokenIds: Iterable<number>): readonly ReplyPart[] {
    let text = "";
    for (const tokenId of tokenIds) if (!this.#stopIds.has(tokenId)) text += this.#textOf(tokenId);
    return this.#take(this.#cutter.push(text));
  }

  end(): readonly ReplyPart[] {
    const parts = this.#take(this.#cutter.push(this.#decoder.flush()) + this.#cutter.end());
    const thoughts = this.#keep(this.#spoken(this.#thinking?.end() ?? []));
    return [...parts, ...thoughts, ...this.#keep(this.#toolCalls?.end() ?? [])];
  }

  #textOf(tokenId: number): string {
    const mark = this.#marks.get(tokenId);
    return mark === undefined ? this.#decoder.push(tokenId) : this.#decoder.flush() + mark;
  }

  /** The content that the client has seen so far. */
  get visible(): ReadReply {
    return {
      content: this.#content,
      reasoning: this.#reasoning,
      toolCalls: this.#calls,
      numBrokenCalls: this.#toolCalls?.numBroken ?? 0,
      parts: this.#parts,
    };
  }

  #take(text: string): readonly ReplyPart[] {
    if (text === "") return [];
    return this.#keep(this.#spoken(this.#thinking?.push(text) ?? [{ kind: "text", text }]));
  }

  /** Calls are made in what is said, not in what is thought. */
  #spoken(pieces: readonly { readonly kind: "text" | "reasoning"; readonly text: string }[]): readonly ReplyPart[] {
    return pieces.flatMap((piece) =>
      piece.kind === "text" && this.#toolCalls !== undefined ? this.#toolCalls.push(piece.text) : [piece],
    );
  }

  #keep(parts: readonly ReplyPart[]): readonly ReplyPart[] {
    for (const part of parts) {
      if (part.kind === "text") this.#content += part.text;
      else if (part.kind === "reasoning") this.#reasoning += part.text;
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

/** The end of a prompt as text. */
function endOf(tokenizer: Tokenizer, promptIds: Int32Array | undefined): string {
  return promptIds === undefined ? "" : tokenizer.decode(promptIds.slice(-12)).trimEnd();
}

function marksOf(tokenizer: Tokenizer, marks: readonly (string | undefined)[]): ReadonlyMap<number, string> {
  const found = marks.flatMap((mark) => {
    const id = mark === undefined ? undefined : tokenizer.idOf(mark);
    return id !== undefined && tokenizer.specialIds.has(id) ? [[id, mark!] as const] : [];
  });
  return new Map(found);
}

function argumentTypes(tools: readonly ChatTool[]): ArgumentTypes {
  return (tool, argument) => {
    const described = tools.map((one) => one.function as Described | undefined).find((one) => one?.name === tool);
    return described?.parameters?.properties?.[argument];
  };
}

interface Described {
  readonly name?: string;
  readonly parameters?: { readonly properties?: Readonly<Record<string, unknown>> };
}
