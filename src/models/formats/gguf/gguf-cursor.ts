/**
 * Walks through the header of a GGUF file, field by field, without trusting it.
 *
 * Nothing is allocated before it is known that the file has the bytes, and no header goes past `maxGgufHeaderBytes`,
 * so memory and time are bounded whatever the counts in the file claim.
 */

import { RerollError } from "../../../errors/reroll-error.ts";
import type { ByteSource } from "../byte-source.ts";

/** A vocabulary of a quarter of a million tokens with its merges takes about 16 MB; this leaves room and bounds a hostile file. */
const maxGgufHeaderBytes = 64 * 2 ** 20;

/** A position in a GGUF header. Each read names the field, for the message when it is not there. */
export class GgufCursor {
  readonly #source: ByteSource;
  #window: Buffer = Buffer.alloc(0);
  #windowStart = 0;
  #at = 0;

  constructor(source: ByteSource) {
    this.#source = source;
  }

  /** Bytes read so far. */
  get position(): number {
    return this.#at;
  }

  /** Throws unless `count` things of at least `bytesEach` can still follow. */
  expectRoom(count: number, bytesEach: number, field: string): void {
    const left = Math.min(this.#source.size, maxGgufHeaderBytes) - this.#at;
    if (count * bytesEach <= left) return;
    const limit =
      this.#source.size > maxGgufHeaderBytes ? ` within the limit of ${maxGgufHeaderBytes} for a header` : "";
    throw this.fail(`${field} needs ${count * bytesEach} bytes at byte ${this.#at} and ${left} are left${limit}`);
  }

  uint8(field: string): number {
    const start = this.#take(1, field);
    return this.#window.readUInt8(start);
  }

  int8(field: string): number {
    const start = this.#take(1, field);
    return this.#window.readInt8(start);
  }

  uint16(field: string): number {
    const start = this.#take(2, field);
    return this.#window.readUInt16LE(start);
  }

  int16(field: string): number {
    const start = this.#take(2, field);
    return this.#window.readInt16LE(start);
  }

  uint32(field: string): number {
    const start = this.#take(4, field);
    return this.#window.readUInt32LE(start);
  }

  int32(field: string): number {
    const start = this.#take(4, field);
    return this.#window.readInt32LE(start);
  }

  float32(field: string): number {
    const start = this.#take(4, field);
    return this.#window.readFloatLE(start);
  }

  float64(field: string): number {
    const start = this.#take(8, field);
    return this.#window.readDoubleLE(start);
  }

  uint64(field: string): bigint {
    const start = this.#take(8, field);
    return this.#window.readBigUInt64LE(start);
  }

  int64(field: string): bigint {
    const start = this.#take(8, field);
    return this.#window.readBigInt64LE(start);
  }

  /** A boolean byte: the format calls anything but 0 and 1 invalid. */
  boolean(field: string): boolean {
    const value = this.uint8(field);
    if (value > 1) throw this.fail(`${field} is a boolean of value ${value} and must be 0 or 1`);
    return value === 1;
  }

  /** A 64-bit count, length or offset, as a number. */
  count(field: string): number {
    const value = this.uint64(field);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.fail(`${field} is ${value} and must be below 2^53`);
    return Number(value);
  }

  /** A text. Bytes that are not UTF-8 become U+FFFD: tokens of some vocabularies are no whole characters. */
  string(field: string): string {
    const length = this.count(`the length of ${field}`);
    const start = this.#take(length, field);
    return this.#window.toString("utf8", start, start + length);
  }

  /** A copy of the next bytes, in a buffer of their own. */
  bytes(length: number, field: string): Uint8Array<ArrayBuffer> {
    const start = this.#take(length, field);
    return new Uint8Array(this.#window.subarray(start, start + length));
  }

  /** The error for a file that says something impossible. */
  fail(what: string): RerollError {
    return new RerollError(
      "GGUF_INVALID",
      `${this.#source.name} is not a valid GGUF file: ${what}. Download it again; a broken transfer is the usual cause.`,
      { fileName: this.#source.name },
    );
  }

  /** Makes the next bytes available, moves past them, and gives their place in the window. */
  #take(length: number, field: string): number {
    this.expectRoom(length, 1, field);
    if (this.#at + length > this.#windowStart + this.#window.length) this.#fillWindow(length);
    const start = this.#at - this.#windowStart;
    this.#at += length;
    return start;
  }

  #fillWindow(length: number): void {
    const size = Math.min(Math.max(length, windowBytes), this.#source.size - this.#at);
    const bytes = this.#source.read(this.#at, size);
    this.#window = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#windowStart = this.#at;
  }
}

const windowBytes = 2 ** 20;
