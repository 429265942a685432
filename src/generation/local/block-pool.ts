/**
 * Blocks of the key/value cache: who holds which, and which hold a prefix that others can use.
 *
 * A block has `blockSize` tokens. Full blocks are named by everything up to their end (a chain of hashes over tokens and
 * the version of the weights), so a prompt that starts like an earlier one finds its blocks and skips their computation.
 * A block nobody holds stays findable until its memory is needed; the least recently freed goes first.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { PrefixKeys } from "./prefix-keys.ts";
import { PrefixTable } from "./prefix-table.ts";

export class BlockPool {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly #holders: Int32Array;
  readonly #known: PrefixTable;
  /** Blocks without holders; the order in which they came is the order of eviction. */
  readonly #idle: BlockList;

  constructor(numBlocks: number, blockSize: number) {
    this.numBlocks = numBlocks;
    this.blockSize = blockSize;
    this.#holders = new Int32Array(numBlocks);
    this.#known = new PrefixTable(numBlocks);
    this.#idle = new BlockList(numBlocks);
    for (let block = 0; block < numBlocks; block++) this.#idle.add(block);
  }

  /** Blocks that can be taken now. */
  get numAvailable(): number {
    return this.#idle.size;
  }

  /** A block with one holder and no content, or undefined when all are held. */
  take(): number | undefined {
    const block = this.#idle.first;
    if (block === undefined) return undefined;
    this.#idle.delete(block);
    this.#known.delete(block);
    this.#holders[block] = 1;
    return block;
  }

  /** One more holder for a block. */
  share(block: number): void {
    if (this.#holders[block] === 0) this.#idle.delete(block);
    this.#holders[block]!++;
  }

  /** One holder less. The content stays findable until the memory is needed. */
  release(block: number): void {
    invariant(this.#holders[block]! > 0, `block ${block} is released more often than it was taken`);
    if (--this.#holders[block]! === 0) this.#idle.add(block);
  }

  /** One holder less for the blocks of a sequence. The last go first: a prefix is of use without them, not they without it. */
  releaseAll(blocks: readonly number[]): void {
    for (let i = blocks.length - 1; i >= 0; i--) this.release(blocks[i]!);
  }

  /** Makes a full block findable, by the name at this index. Where another block has the same content already, that one stays the known one. */
  publish(block: number, keys: PrefixKeys, index: number): void {
    if (!this.#known.has(block) && this.find(keys, index) === undefined) this.#known.add(block, keys, index);
  }

  /** The block with the content of this name. */
  find(keys: PrefixKeys, index: number): number | undefined {
    return this.#known.find(keys, index);
  }

  /** Forgets every published prefix: after new weights, cached keys and values are those of another model. */
  forgetPrefixes(): void {
    this.#known.clear();
  }
}

/**
 * Blocks in the order in which they were added, as a ring of neighbors. A Set would do, but it remembers where deleted entries were, and
 * taking its first entry walks past all of them: thousands, where prompts fill a large cache.
 */
class BlockList {
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  /** Stands before the first block and after the last. */
  readonly #end: number;
  size = 0;

  constructor(numBlocks: number) {
    this.#end = numBlocks;
    this.#next = new Int32Array(numBlocks + 1).fill(numBlocks);
    this.#previous = new Int32Array(numBlocks + 1).fill(numBlocks);
  }

  get first(): number | undefined {
    return this.size === 0 ? undefined : this.#next[this.#end];
  }

  /** Adds a block that is not in the list at its end. */
  add(block: number): void {
    this.#join(this.#previous[this.#end]!, block);
    this.#join(block, this.#end);
    this.size++;
  }

  /** Takes out a block that is in the list. */
  delete(block: number): void {
    this.#join(this.#previous[block]!, this.#next[block]!);
    this.size--;
  }

  #join(before: number, after: number): void {
    this.#next[before] = after;
    this.#previous[after] = before;
  }
}
