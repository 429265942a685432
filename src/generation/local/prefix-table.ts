/**
 * Blocks by the names of what they hold: a hash table in memory of fixed size. A Map would do, but it stops the thread whenever it makes itself
 * anew, for 20 ms and more with half a million blocks, and the collector would look through all of its names.
 */
import type { PrefixKeys } from "./prefix-keys.ts";

const NONE = -1;

export class PrefixTable {
  /** Four words for each block: its name, if it has one. */
  readonly #names: Int32Array;
  readonly #hasName: Uint8Array;
  /** The first block of each bucket, and the one after each block. Names are random: some of their bits choose the bucket. */
  readonly #first: Int32Array;
  readonly #next: Int32Array;

  constructor(numBlocks: number) {
    this.#names = new Int32Array(4 * numBlocks);
    this.#hasName = new Uint8Array(numBlocks);
    this.#first = new Int32Array(2 ** Math.ceil(Math.log2(numBlocks))).fill(NONE);
    this.#next = new Int32Array(numBlocks).fill(NONE);
  }

  /** The block with the name at this index. */
  find(keys: PrefixKeys, index: number): number | undefined {
    let block = this.#first[this.#bucketOf(keys.words, 4 * index)]!;
    while (block !== NONE && !this.#isNamed(block, keys.words, 4 * index)) block = this.#next[block]!;
    return block === NONE ? undefined : block;
  }

  has(block: number): boolean {
    return this.#hasName[block] === 1;
  }

  /** Adds a block that is not in the table, by a name that is not in it either. */
  add(block: number, keys: PrefixKeys, index: number): void {
    for (let i = 0; i < 4; i++) this.#names[4 * block + i] = keys.words[4 * index + i]!;
    const bucket = this.#bucketOf(this.#names, 4 * block);
    this.#next[block] = this.#first[bucket]!;
    this.#first[bucket] = block;
    this.#hasName[block] = 1;
  }

  /** Takes out a block, if it is in the table. */
  delete(block: number): void {
    if (!this.has(block)) return;
    this.#hasName[block] = 0;
    const bucket = this.#bucketOf(this.#names, 4 * block);
    if (this.#first[bucket] === block) {
      this.#first[bucket] = this.#next[block]!;
      return;
    }
    let before = this.#first[bucket]!;
    while (this.#next[before] !== block) before = this.#next[before]!;
    this.#next[before] = this.#next[block]!;
  }

  clear(): void {
    this.#first.fill(NONE);
    this.#hasName.fill(0);
  }

  #bucketOf(words: Int32Array, at: number): number {
    return words[at]! & (this.#first.length - 1);
  }

  #isNamed(block: number, words: Int32Array, at: number): boolean {
    for (let i = 0; i < 4; i++) if (this.#names[4 * block + i] !== words[at + i]) return false;
    return true;
  }
}
