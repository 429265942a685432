/**
 * UTF-8 from bytes that arrive in any cut.
 *
 * Promise: all that `push` and `flush` return, joined, equals one lossy decode of all bytes (one U+FFFD for each maximal
 * broken part, as the WHATWG decoder and Rust's `from_utf8_lossy` do). At most three bytes are held back.
 */

const NO_BYTES = new Uint8Array(0);

/** A byte-order mark is text like any other: tokens that spell one must come back out. */
const lossyUtf8 = new TextDecoder("utf-8", { ignoreBOM: true });

export class Utf8Stream {
  #held: Uint8Array = NO_BYTES;

  /** Whether nothing is held back: bytes that are whole characters then stand for themselves. */
  get isWhole(): boolean {
    return this.#held.length === 0;
  }

  /** Takes the next bytes and returns the text that they complete. */
  push(bytes: Uint8Array): string {
    const all = this.#held.length === 0 ? bytes : concat(this.#held, bytes);
    const end = all.length - openTailLength(all);
    this.#held = end === all.length ? NO_BYTES : all.slice(end);
    return lossyUtf8.decode(all.subarray(0, end));
  }

  /** Returns U+FFFD for a character that never got its last byte, else "". */
  flush(): string {
    const held = this.#held;
    this.#held = NO_BYTES;
    return lossyUtf8.decode(held);
  }
}

/** The number of bytes at the end that begin a character that later bytes can still complete. */
function openTailLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    const isContinuation = byte >= 0x80 && byte <= 0xbf;
    if (isContinuation) continue;
    const isOpen = characterLength(byte) > back && (back === 1 || canFollow(byte, bytes[bytes.length - back + 1] ?? 0));
    return isOpen ? back : 0;
  }
  return 0;
}

/** Bytes of the character that this first byte starts; 0 for a byte that starts none. */
function characterLength(first: number): number {
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  if (first >= 0xf0 && first <= 0xf4) return 4;
  return 0;
}

/** The second byte is narrower than 80-BF after four first bytes: no overlong forms, no surrogates, nothing past U+10FFFF. */
function canFollow(first: number, second: number): boolean {
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second <= 0x9f;
  if (first === 0xf0) return second >= 0x90;
  if (first === 0xf4) return second <= 0x8f;
  return true;
}

function concat(left: Uint8Array, right: Uint8Array): Uint8Array {
  const all = new Uint8Array(left.length + right.length);
  all.set(left);
  all.set(right, left.length);
  return all;
}
