/**
 * Tool calls in the text of a reply, in the format of Qwen and Hermes: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
 *
 * In: text as it comes. Out: plain text at once, and each call when it is complete; nothing of a call is ever shown as
 * text. What looks like a call but is none (its content is not JSON with a name) is text after all. White space next to
 * a call is not text.
 */
import { jsonDepth, MAX_JSON_DEPTH } from "../errors/json-depth.ts";

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string /** JSON. */; readonly arguments: string };
}

export type ReplyPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tool-call"; readonly index: number; readonly call: ToolCall };

/** Adds a part. Texts that follow each other become one. */
export function addPart(parts: ReplyPart[], part: ReplyPart): void {
  const last = parts.at(-1);
  if (part.kind === "text" && last?.kind === "text")
    parts[parts.length - 1] = { kind: "text", text: last.text + part.text };
  else parts.push(part);
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** Takes time in proportion to the text, in however many pieces it comes: no piece is looked at again for each that follows. */
export class ToolCallReader {
  readonly #newCallId: () => string;
  /** What is certain but not yet given out: the white space before the end, or the content of the open call. */
  #held: string[] = [];
  /** The last characters, which may be the beginning of a tag. */
  #tail = "";
  #isInCall = false;
  #isAfterCall = false;
  #numCalls = 0;

  constructor(newCallId: () => string) {
    this.#newCallId = newCallId;
  }

  push(text: string): readonly ReplyPart[] {
    const parts: ReplyPart[] = [];
    let rest = this.#tail + text;
    this.#tail = "";
    while (rest !== "") rest = this.#isInCall ? this.#readCall(rest, parts) : this.#readText(rest, parts);
    return parts;
  }

  /** Ends the reply. A call that was not closed counts when it is complete, and is text when it is not. */
  end(): readonly ReplyPart[] {
    const held = this.#takeHeld() + this.#tail;
    this.#tail = "";
    return this.#isInCall ? (this.#callOf(held) ?? textPart(OPEN + held)) : textPart(held);
  }

  /** Reads up to the next call, or all. Returns what is left to read. */
  #readText(text: string, parts: ReplyPart[]): string {
    const start = text.indexOf(OPEN);
    const end = start === -1 ? text.length - beginningLength(text, OPEN) : start;
    const before = text.slice(0, end);
    const content = this.#isAfterCall ? before.trim() : before.trimEnd();
    if (content !== "") {
      parts.push({ kind: "text", text: this.#takeHeld() + content });
      this.#isAfterCall = false;
    }
    if (start === -1) {
      if (!this.#isAfterCall) this.#held.push(content === "" ? before : before.slice(before.trimEnd().length));
      this.#tail = text.slice(end);
      return "";
    }
    this.#held = [];
    this.#isInCall = true;
    return text.slice(start + OPEN.length);
  }

  /** Reads up to the end of the open call, or all. Returns what is left to read. */
  #readCall(text: string, parts: ReplyPart[]): string {
    const end = text.indexOf(CLOSE);
    if (end === -1) {
      const certain = text.length - beginningLength(text, CLOSE);
      this.#held.push(text.slice(0, certain));
      this.#tail = text.slice(certain);
      return "";
    }
    const content = this.#takeHeld() + text.slice(0, end);
    const call = this.#callOf(content);
    this.#isInCall = false;
    this.#isAfterCall = call !== undefined;
    parts.push(...(call ?? textPart(OPEN + content + CLOSE)));
    return text.slice(end + CLOSE.length);
  }

  #takeHeld(): string {
    const held = this.#held.join("");
    this.#held = [];
    return held;
  }

  #callOf(content: string): readonly ReplyPart[] | undefined {
    const parsed = parseCall(content);
    if (parsed === undefined) return undefined;
    const call: ToolCall = { id: this.#newCallId(), type: "function", function: parsed };
    return [{ kind: "tool-call", index: this.#numCalls++, call }];
  }
}

/** How many characters at the end of the text may be the beginning of the tag. */
function beginningLength(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

function parseCall(content: string): ToolCall["function"] | undefined {
  if (jsonDepth(content) > MAX_JSON_DEPTH) return undefined;
  const value = parseJson(content);
  if (typeof value !== "object" || value === null || !("name" in value) || typeof value.name !== "string") {
    return undefined;
  }
  const given = "arguments" in value ? value.arguments : {};
  return { name: value.name, arguments: typeof given === "string" ? given : JSON.stringify(given ?? {}) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A policy under training writes broken calls all the time: that is text, not an error.
    return undefined;
  }
}

function textPart(text: string): readonly ReplyPart[] {
  return text === "" ? [] : [{ kind: "text", text }];
}
