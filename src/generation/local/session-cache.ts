/**
 * Caches of sessions between their turns.
 *
 * A session's last turn leaves its blocks here; the next turn takes them if its prompt extends those tokens. Blocks of
 * sessions are the first to go when memory is short, the longest unused before others.
 */
import type { BlockPool } from "./block-pool.ts";
import type { Sequence } from "./sequence.ts";

interface StoredCache {
  readonly tokens: Int32Array;
  readonly blocks: number[];
  readonly numComputed: number;
  /** The slot of its state, where the model has linear attention. */
  readonly stateSlot: number | null;
}

export class SessionCache {
  readonly #pool: BlockPool;
  readonly #states: BlockPool | null;
  /** Insertion order is the order of last use. */
  readonly #stored = new Map<string, StoredCache>();

  constructor(pool: BlockPool, states: BlockPool | null = null) {
    this.#pool = pool;
    this.#states = states;
  }

  /** Keeps the cache of a finished turn. */
  store(sequence: Sequence): void {
    const id = sequence.sessionId;
    if (id === undefined) return;
    this.#drop(id);
    const { numComputed, blocks, stateSlot } = sequence;
    this.#stored.set(id, { tokens: sequence.tokens.slice(0, numComputed), blocks, numComputed, stateSlot });
    sequence.blocks = [];
    sequence.stateSlot = null;
  }

  /** The cache of a session whose tokens this prompt extends, or null. Either way it is no longer stored. */
  take(id: string, prompt: Int32Array): StoredCache | null {
    const cache = this.#stored.get(id);
    if (cache === undefined) return null;
    if (cache.numComputed < prompt.length && startsWith(prompt, cache.tokens)) {
      this.#stored.delete(id);
      return cache;
    }
    this.#drop(id);
    return null;
  }

  /** Gives up sessions, the longest unused first, until there is room enough or none is left. */
  evict(hasRoom: () => boolean): void {
    // Not by a list of all names: with thousands of sessions in a full cache, every block would cost one.
    for (const id of this.#stored.keys()) {
      if (hasRoom()) return;
      this.#drop(id);
    }
  }

  clear(): void {
    for (const id of [...this.#stored.keys()]) this.#drop(id);
  }

  #drop(id: string): void {
    const cache = this.#stored.get(id);
    if (cache === undefined) return;
    this.#pool.releaseAll(cache.blocks);
    if (cache.stateSlot !== null) this.#states?.release(cache.stateSlot);
    this.#stored.delete(id);
  }
}

function startsWith(tokens: Int32Array, prefix: Int32Array): boolean {
  for (let i = 0; i < prefix.length; i++) if (tokens[i] !== prefix[i]) return false;
  return true;
}
