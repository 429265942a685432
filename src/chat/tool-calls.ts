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

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

export class ToolCallReader {
  readonly #newCallId: () => string;
  /** Text that may still turn out to belong to a call. */
  #held = "";
  #isInCall = false;
  #isAfterCall = false;
  #numCalls = 0;

  constructor(newCallId: () => string) {
    this.#newCallId = newCallId;
  }

  push(text: string): readonly ReplyPart[] {
    this.#held += text;
    const parts: ReplyPart[] = [];
    for (let next = this.#next(); next !== undefined; next = this.#next()) parts.push(...next);
    return parts;
  }

  /** Ends the reply. A call that was not closed counts when it is complete, and is text when it is not. */
  end(): readonly ReplyPart[] {
    const held = this.#held;
    this.#held = "";
    if (!this.#isInCall) return this.#isAfterCall && held.trim() === "" ? [] : textPart(held);
    return this.#readCall(held) ?? textPart(OPEN + held);
  }

  /** The next part that is certain; undefined when more text is needed. */
  #next(): readonly ReplyPart[] | undefined {
    return this.#isInCall ? this.#nextInCall() : this.#nextInText();
  }

  #nextInText(): readonly ReplyPart[] | undefined {
    if (this.#isAfterCall) this.#held = this.#held.trimStart();
    const start = this.#held.indexOf(OPEN);
    const certain = start === -1 ? certainLength(this.#held) : this.#held.slice(0, start).trimEnd().length;
    const text = this.#held.slice(0, certain);
    if (start === -1 && text === "") return undefined;
    this.#held = start === -1 ? this.#held.slice(certain) : this.#held.slice(start + OPEN.length);
    this.#isInCall = start !== -1;
    if (text !== "") this.#isAfterCall = false;
    return textPart(text);
  }

  #nextInCall(): readonly ReplyPart[] | undefined {
    const end = this.#held.indexOf(CLOSE);
    if (end === -1) return undefined;
    const content = this.#held.slice(0, end);
    this.#held = this.#held.slice(end + CLOSE.length);
    this.#isInCall = false;
    const call = this.#readCall(content);
    this.#isAfterCall = call !== undefined;
    return call ?? textPart(OPEN + content + CLOSE);
  }

  #readCall(content: string): readonly ReplyPart[] | undefined {
    const parsed = parseCall(content);
    if (parsed === undefined) return undefined;
    const call: ToolCall = { id: this.#newCallId(), type: "function", function: parsed };
    return [{ kind: "tool-call", index: this.#numCalls++, call }];
  }
}

/** The length of the text that can no longer belong to a call: all but a beginning of the tag, and the white space before it. */
function certainLength(text: string): number {
  for (let length = Math.min(OPEN.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(OPEN.slice(0, length))) return text.slice(0, -length).trimEnd().length;
  }
  return text.trimEnd().length;
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
