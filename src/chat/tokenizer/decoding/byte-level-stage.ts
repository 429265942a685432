/**
 * Decoding of byte-level vocabularies (GPT-2, Llama 3, Qwen), where each character of a token stands for one byte.
 *
 * A token with a character outside that alphabet, such as an added token with a space, stands for its own UTF-8 bytes.
 */

import type { DecodeStage, Emit } from "./decode-stage.ts";
import { Utf8Stream } from "./utf8-stream.ts";

/** Joins the bytes of all tokens and emits the characters that are complete. */
export function byteLevelStage(emit: Emit): DecodeStage {
  const utf8 = new Utf8Stream();
  return {
    push: (piece) => emit(utf8.push(bytesOfToken(piece))),
    flush: () => emit(utf8.flush()),
    plain: {
      get isWhole() {
        return utf8.isWhole;
      },
      textOf: plainTextOf,
    },
  };
}

/**
 * The character that stands for each byte, by byte: printable Latin-1 stands for itself, every other byte for the next
 * free character from U+0100 on. This is `bytes_to_unicode` of the GPT-2 release.
 */
export function byteLevelAlphabet(): readonly string[] {
  let nextFree = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : nextFree++));
}

function isPrintable(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

const utf8Encoder = new TextEncoder();

/** The byte that each character code stands for; -1 if it stands for none. */
const byteOfCode = Int16Array.from({ length: 0x200 }, () => -1);
for (const [byte, character] of byteLevelAlphabet().entries()) byteOfCode[character.charCodeAt(0)] = byte;

/** The text of a token of ASCII bytes, null for others. */
function plainTextOf(token: string): string | null {
  const bytes = bytesOfToken(token);
  return bytes.every((byte) => byte < 0x80) ? String.fromCharCode(...bytes) : null;
}

function bytesOfToken(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let index = 0; index < token.length; index++) {
    const byte = byteOfCode[token.charCodeAt(index)] ?? -1;
    if (byte === -1) return utf8Encoder.encode(token);
    bytes[index] = byte;
  }
  return bytes;
}
