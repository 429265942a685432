/**
 * Tool calls in the text of a reply.
 *
 * In: text as it comes. Out: plain text at once, and each call when it is complete; nothing of a call is ever shown as text. What looks
 * like a call but cannot be read is text after all, and counted. White space next to a call is not text.
 */
import type { ReplyPart } from "./reply-part.ts";
import type { ArgumentTypes, ParsedCall, ToolCallFormat } from "./tool-call-format.ts";

/** Takes time in proportion to the text, in however many pieces it comes: no piece is looked at again for each that follows. */
export class ToolCallReader {
  readonly #newCallId: () => string;
  readonly #format: ToolCallFormat;
  readonly #typesOf: ArgumentTypes;
  /** What is certain but not yet given out: the white space before the end, or the content of the open call. */
  #held: string[] = [];
  /** The last characters, which may be the beginning of a tag. */
  #tail = "";
  #isInCall = false;
  #isAfterCall = false;
  #hasBegun = false;
  #numCalls = 0;
  #numBroken = 0;

  constructor(newCallId: () => string, format: ToolCallFormat, typesOf: ArgumentTypes = () => undefined) {
    this.#newCallId = newCallId;
    this.#format = format;
    this.#typesOf = typesOf;
  }

  /** Calls that could not be read, whose text was given out. */
  get numBroken(): number {
    return this.#numBroken;
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
    return this.#isInCall ? this.#callsOf(held, "") : textPart(held);
  }

  /** Reads up to the next call, or all. Returns what is left to read. */
  #readText(text: string, parts: ReplyPart[]): string {
    const { open } = this.#format;
    const start = this.#startOf(text);
    const end = start === -1 ? text.length - this.#beginningLength(text, open) : start;
    const before = text.slice(0, end);
    const content = this.#isAfterCall ? before.trim() : before.trimEnd();
    this.#hasBegun ||= content !== "";
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
    this.#hasBegun = true;
    return text.slice(start + open.length);
  }

  #startOf(text: string): number {
    const { open, isAtStart = false } = this.#format;
    if (!isAtStart) return text.indexOf(open);
    const first = text.search(/\S/);
    return !this.#hasBegun && first !== -1 && text.startsWith(open, first) ? first : -1;
  }

  #beginningLength(text: string, tag: string): number {
    return this.#format.isAtStart === true ? 0 : beginningLength(text, tag);
  }

  /** Reads up to the end of the open call, or all. Returns what is left to read. */
  #readCall(text: string, parts: ReplyPart[]): string {
    const { close } = this.#format;
    const end = close === null ? -1 : text.indexOf(close);
    if (close === null || end === -1) {
      const certain = text.length - (close === null ? 0 : beginningLength(text, close));
      this.#held.push(text.slice(0, certain));
      this.#tail = text.slice(certain);
      return "";
    }
    parts.push(...this.#callsOf(this.#takeHeld() + text.slice(0, end), close));
    this.#isInCall = false;
    this.#isAfterCall = parts.at(-1)?.kind === "tool-call";
    return text.slice(end + close.length);
  }

  #takeHeld(): string {
    const held = this.#held.join("");
    this.#held = [];
    return held;
  }

  #callsOf(content: string, close: string): readonly ReplyPart[] {
    const { parse, open, isAtStart = false } = this.#format;
    const calls = parse(content, this.#typesOf);
    if (calls !== undefined) return calls.map((call) => this.#partOf(call));
    // A reply that begins with a bracket is a call only if it turns out to be one.
    if (!isAtStart) this.#numBroken++;
    return textPart(open + content + close);
  }

  #partOf(parsed: ParsedCall): ReplyPart {
    return {
      kind: "tool-call",
      index: this.#numCalls++,
      call: { id: this.#newCallId(), type: "function", function: parsed },
    };
  }
}

/** How many characters at the end of the text may be the beginning of the tag. */
export function beginningLength(text: string, tag: string): number {
  for (let length = Math.min(tag.length - 1, text.length); length > 0; length--) {
    if (text.endsWith(tag.slice(0, length))) return length;
  }
  return 0;
}

function textPart(text: string): readonly ReplyPart[] {
  return text === "" ? [] : [{ kind: "text", text }];
}
