/** Cutting of a character at the two ends of the whole text, as sentencepiece decoders do with the leading space. */

import type { DecodeStage, DecodeStageFactory } from "./decode-stage.ts";

interface StripOptions {
  /** The one character that is cut. */
  readonly content: string;
  /** At most this many at the start. */
  readonly start: number;
  /** At most this many at the end. */
  readonly stop: number;
}

/** Cuts `content` at the ends of a text that arrives in pieces. Holds back at most `stop` characters. */
export function stripStage({ content, start, stop }: StripOptions): DecodeStageFactory {
  return (emit): DecodeStage => {
    let leftAtStart = start;
    let numHeld = 0;
    return {
      push(piece) {
        const cut = Math.min(leftAtStart, countLeading(piece, content));
        const rest = piece.slice(cut * content.length);
        leftAtStart = rest === "" ? leftAtStart - cut : 0;
        const text = content.repeat(numHeld) + rest;
        numHeld = Math.min(stop, countTrailing(text, content));
        emit(text.slice(0, text.length - numHeld * content.length));
      },
      flush() {
        leftAtStart = start;
        numHeld = 0;
      },
    };
  };
}

/** Cuts `content` at the ends of one text. */
export function strip(text: string, { content, start, stop }: StripOptions): string {
  const cutAtStart = Math.min(start, countLeading(text, content)) * content.length;
  const cutAtEnd = Math.min(stop, countTrailing(text, content)) * content.length;
  return text.slice(cutAtStart, Math.max(cutAtStart, text.length - cutAtEnd));
}

function countLeading(text: string, content: string): number {
  let count = 0;
  while (text.startsWith(content, count * content.length)) count++;
  return count;
}

function countTrailing(text: string, content: string): number {
  let count = 0;
  while (text.endsWith(content, text.length - count * content.length)) count++;
  return count;
}
