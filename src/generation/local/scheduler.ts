/**
 * Which sequences take part in the next step, with how many tokens, and in which cache blocks.
 *
 * Every step first continues the running sequences by one token each, then fills the token budget with prompts, oldest
 * first, in pieces where they are long. Waits for: free cache blocks and places. When a running sequence needs a block
 * and none is free, the youngest one gives its blocks back and starts over later, with its tokens.
 *
 * Where a model has linear attention, every running sequence has a slot for its state too. A state cannot be cut back as keys and values
 * can, so a prompt that begins like an earlier one starts from where a state was kept: at the end of that prompt's full blocks.
 */
import type { BlockPool } from "./block-pool.ts";
import { stateRow } from "./paged-cache.ts";
import { PrefixKeys } from "./prefix-keys.ts";
import type { Sequence } from "./sequence.ts";
import type { SessionCache } from "./session-cache.ts";

interface SchedulerLimits {
  /** Sequences that run at the same time. */
  readonly maxRunning: number;
  /** Tokens that one step computes. */
  readonly maxStepTokens: number;
  /** Whether new weights make running sequences compute their keys and values again. */
  readonly reprefills: boolean;
  /** Whether prompts that come one by one are gathered while others decode: see GATHERED_SHARE. Default false. */
  readonly gathersPrompts?: boolean;
}

/**
 * On a GPU a step with prompts takes several times as long as one that only decodes, for each that runs. So prompts wait until they are this
 * share of those that run, but no longer than this many steps.
 */
const GATHERED_SHARE = 1 / 16;
const GATHERED_STEPS = 16;

/** Part of a step: the next `numTokens` uncomputed tokens of a sequence. */
export interface Piece {
  readonly sequence: Sequence;
  readonly numTokens: number;
  /** Whether this computes the last token, so that the next one can be drawn. */
  readonly isLast: boolean;
}

/** A block, or a row of states, whose content is copied once the step has computed it. */
export interface CacheCopy {
  readonly from: number;
  readonly to: number;
}

/** The sequences that start where another one is, and what they have to copy for it. */
interface Fork {
  readonly followers: readonly Sequence[];
  readonly blocks: readonly CacheCopy[];
  readonly stateRows: readonly CacheCopy[];
}

const noFork: Fork = { followers: [], blocks: [], stateRows: [] };

export class Scheduler {
  /** Insertion order is age: the last one is the youngest. */
  readonly #running = new Set<Sequence>();
  readonly #waiting: Sequence[] = [];
  /** The running sequence that computes a prompt, by prompt. */
  readonly #leaders = new Map<string, Sequence>();
  readonly #pool: BlockPool;
  /** Slots for states, named as blocks are: see BlockPool. Null where the model has none. */
  readonly #states: BlockPool | null;
  readonly #sessions: SessionCache;
  readonly #limits: SchedulerLimits;
  #version: number;
  /** Steps that went by while prompts were being gathered. */
  #numGatheringSteps = 0;

  constructor(
    pool: BlockPool,
    sessions: SessionCache,
    limits: SchedulerLimits,
    version: number,
    states: BlockPool | null = null,
  ) {
    this.#pool = pool;
    this.#states = states;
    this.#sessions = sessions;
    this.#limits = limits;
    this.#version = version;
  }

  get numRunning(): number {
    return this.#running.size;
  }

  get numWaiting(): number {
    let followers = 0;
    for (const leader of this.#leaders.values()) followers += leader.followers.length;
    return this.#waiting.length + followers;
  }

  /** Whether there are prompts, or rests of prompts, that the next step could compute. */
  get hasPrompts(): boolean {
    if (this.#startsPrompts()) return true;
    for (const sequence of this.#running) if (sequence.numPending > 1) return true;
    return false;
  }

  /** Whether prompts wait that are to start now, beside this many. */
  #startsPrompts(numRunning = this.#running.size): boolean {
    const { gathersPrompts = false, maxRunning } = this.#limits;
    if (this.#waiting.length === 0 || numRunning >= maxRunning) return false;
    if (!gathersPrompts || this.#numGatheringSteps >= GATHERED_STEPS) return true;
    return this.#waiting.length >= GATHERED_SHARE * numRunning;
  }

  add(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /** The pieces of the next step. Empty when there is nothing to do. */
  plan(): Piece[] {
    const pieces: Piece[] = [];
    let budget = this.#limits.maxStepTokens;
    for (const sequence of [...this.#running]) {
      // It may have given its blocks to an older one in this very loop.
      if (budget === 0 || !this.#running.has(sequence)) continue;
      const numTokens = Math.min(sequence.numPending, budget);
      // Its next token is being drawn.
      if (numTokens === 0) continue;
      if (!this.#reserve(sequence, sequence.numComputed + numTokens)) continue;
      pieces.push(this.#pieceOf(sequence, numTokens));
      budget -= numTokens;
    }
    const startsPrompts = this.#startsPrompts();
    this.#numGatheringSteps = startsPrompts ? 0 : this.#numGatheringSteps + (this.#waiting.length > 0 ? 1 : 0);
    while (startsPrompts && budget > 0 && this.#running.size < this.#limits.maxRunning) {
      const sequence = this.#nextWaiting();
      if (sequence === undefined) break;
      this.#adoptCache(sequence);
      const numTokens = Math.min(sequence.numPending, budget);
      if (!this.#reserveState(sequence) || !this.#reserveIdle(sequence, sequence.numComputed + numTokens)) {
        this.#giveBack(sequence);
        this.#waiting.unshift(sequence);
        break;
      }
      this.#start(sequence);
      pieces.push(this.#pieceOf(sequence, numTokens));
      budget -= numTokens;
    }
    return pieces;
  }

  /**
   * Records that a piece was computed, and makes its full blocks findable. When that was the last of a prompt, the
   * sequences that waited for it start from its cache: full blocks are shared, the one that all will write to and the state are copied.
   * They draw their first token from the same scores.
   */
  complete({ sequence, numTokens, isLast }: Piece): Fork {
    this.#record(sequence, numTokens);
    if (!isLast || this.#leaders.get(sequence.promptKey) !== sequence) return noFork;
    this.#leaders.delete(sequence.promptKey);
    return this.#fork(sequence);
  }

  /** The same for the last token of a sequence that is past its prompt, for which nobody waits. */
  completeToken(sequence: Sequence): void {
    this.#record(sequence, 1);
  }

  /**
   * Reserves blocks for the step after the one that is being computed, in which these sequences get one more token each and
   * `numEnding` others of the present step have none. False when that step is not theirs alone: others run or wait for a
   * place, or a block has to be taken from someone.
   */
  reserveAhead(sequences: readonly Sequence[], numEnding: number): boolean {
    if (sequences.length === 0 || this.#running.size !== sequences.length + numEnding) return false;
    if (this.#startsPrompts(sequences.length)) return false;
    if (this.#waiting.length > 0) this.#numGatheringSteps++;
    for (const sequence of sequences) if (!this.#reserveIdle(sequence, sequence.length + 1)) return false;
    return true;
  }

  /** Takes a sequence out, wherever it is. Its cache goes to its session, if it has one. */
  remove(sequence: Sequence): void {
    this.#dropLeader(sequence);
    if (!this.#running.delete(sequence)) {
      const queues = [this.#waiting, ...[...this.#leaders.values()].map(({ followers }) => followers)];
      const queue = queues.find((one) => one.includes(sequence));
      queue?.splice(queue.indexOf(sequence), 1);
    }
    // A cache with keys of different weights in it is not worth keeping: the next turn starts from clean ones.
    const isClean = sequence.numComputed > 0 && sequence.prefixKeys !== null;
    this.#releaseStates(sequence);
    if (sequence.sessionId !== undefined && isClean) this.#sessions.store(sequence);
    else this.#giveBack(sequence);
  }

  /**
   * New weights: no prompt may start from keys and values of the old ones. Running sequences go on with theirs, or start over with
   * their tokens and compute them again, oldest first.
   */
  setVersion(version: number): void {
    this.#version = version;
    this.#sessions.clear();
    this.#pool.forgetPrefixes();
    this.#states?.forgetPrefixes();
    const followers = [...this.#leaders.values()].flatMap((leader) => leader.followers.splice(0));
    this.#leaders.clear();
    this.#waiting.unshift(...followers);
    if (this.#limits.reprefills) for (const sequence of [...this.#running].reverse()) this.#preempt(sequence);
    else for (const sequence of this.#running) sequence.prefixKeys = null;
  }

  /** No keys and values are left: running sequences start over with their tokens, oldest first. */
  forgetCaches(): void {
    this.#sessions.clear();
    this.#pool.forgetPrefixes();
    this.#states?.forgetPrefixes();
    for (const sequence of [...this.#running].reverse()) this.#preempt(sequence);
  }

  /** The next sequence that can start. Those with the prompt of one that is being computed are handed to that one. */
  #nextWaiting(): Sequence | undefined {
    for (let sequence = this.#waiting.shift(); sequence !== undefined; sequence = this.#waiting.shift()) {
      const leader = sequence.isStarting ? this.#leaders.get(sequence.promptKey) : undefined;
      if (leader === undefined) return sequence;
      leader.followers.push(sequence);
    }
    return undefined;
  }

  #start(sequence: Sequence): void {
    this.#running.add(sequence);
    // Whatever cache it starts from was computed by these weights: others are forgotten when new ones come.
    sequence.cacheVersion = this.#version;
    if (sequence.isStarting) this.#leaders.set(sequence.promptKey, sequence);
  }

  #fork(leader: Sequence): Fork {
    const followers: Sequence[] = [];
    const blocks: CacheCopy[] = [];
    const stateRows: CacheCopy[] = [];
    const { blockSize } = this.#pool;
    const numFull = Math.floor(leader.length / blockSize);
    const tail = leader.blocks[numFull];
    for (const follower of leader.followers) {
      if (this.#running.size >= this.#limits.maxRunning) break;
      if (!this.#reserveState(follower) || !this.#reserveIdle(follower, leader.length % blockSize)) {
        this.#giveBack(follower);
        break;
      }
      const [own] = follower.blocks;
      follower.blocks.unshift(...leader.blocks.slice(0, numFull));
      for (const block of leader.blocks.slice(0, numFull)) this.#pool.share(block);
      if (tail !== undefined && own !== undefined) blocks.push({ from: tail, to: own });
      if (leader.stateSlot !== null && follower.stateSlot !== null) {
        const row = (slot: number) => stateRow(slot, leader.length);
        stateRows.push({ from: row(leader.stateSlot), to: row(follower.stateSlot) });
      }
      follower.prefixKeys = leader.prefixKeys?.copy() ?? null;
      follower.cacheVersion = leader.cacheVersion;
      follower.numComputed = leader.length;
      follower.numCached = leader.length;
      this.#running.add(follower);
      followers.push(follower);
    }
    // Those that found no place start from the published blocks when one is free.
    this.#waiting.unshift(...leader.followers.slice(followers.length));
    leader.followers = [];
    return { followers, blocks, stateRows };
  }

  /** Blocks for the first `numTokens` tokens; takes them from the youngest sequence when none is free. */
  #reserve(sequence: Sequence, numTokens: number): boolean {
    while (!this.#reserveIdle(sequence, numTokens)) {
      const youngest = [...this.#running].at(-1);
      if (youngest === undefined) return false;
      this.#preempt(youngest);
      if (youngest === sequence) return false;
    }
    return true;
  }

  #reserveIdle(sequence: Sequence, numTokens: number): boolean {
    const needed = Math.ceil(numTokens / this.#pool.blockSize) - sequence.blocks.length;
    if (needed <= 0) return true;
    if (this.#pool.numAvailable < needed) this.#sessions.evict(() => this.#pool.numAvailable >= needed);
    if (this.#pool.numAvailable < needed) return false;
    for (let i = 0; i < needed; i++) sequence.blocks.push(this.#pool.take()!);
    return true;
  }

  /** A slot for the state of a sequence, where the model has states. */
  #reserveState(sequence: Sequence): boolean {
    const states = this.#states;
    if (states === null || sequence.stateSlot !== null) return true;
    if (states.numAvailable === 0) this.#sessions.evict(() => states.numAvailable > 0);
    sequence.stateSlot = states.take() ?? null;
    return sequence.stateSlot !== null;
  }

  #preempt(sequence: Sequence): void {
    this.#running.delete(sequence);
    this.#dropLeader(sequence);
    this.#giveBack(sequence);
    this.#waiting.unshift(sequence);
  }

  #dropLeader(sequence: Sequence): void {
    if (this.#leaders.get(sequence.promptKey) !== sequence) return;
    this.#leaders.delete(sequence.promptKey);
    this.#waiting.unshift(...sequence.followers);
    sequence.followers = [];
  }

  #giveBack(sequence: Sequence): void {
    this.#releaseStates(sequence);
    if (sequence.stateSlot !== null) this.#states?.release(sequence.stateSlot);
    this.#pool.releaseAll(sequence.blocks);
    sequence.forgetCache();
  }

  /** What a step needs of states beside the sequence's own. */
  #releaseStates(sequence: Sequence): void {
    if (sequence.stateSource !== null) this.#states?.release(sequence.stateSource);
    if (sequence.stateMark !== null) this.#states?.release(sequence.stateMark.slot);
    sequence.stateSource = null;
    sequence.stateMark = null;
  }

  /** Finds what is computed already: the cache of the session, or blocks of any sequence that started with the same tokens. */
  #adoptCache(sequence: Sequence): void {
    const session = sequence.sessionId === undefined ? null : this.#sessions.take(sequence.sessionId, sequence.tokens);
    if (session !== null) {
      sequence.blocks = session.blocks;
      sequence.numComputed = session.numComputed;
      sequence.stateSlot = session.stateSlot;
    } else {
      this.#adoptPrefix(sequence);
    }
    if (sequence.numDrawn === 0) sequence.numCached = sequence.numComputed;
  }

  #adoptPrefix(sequence: Sequence): void {
    const { blockSize } = this.#pool;
    const { tokens } = sequence;
    const keys = new PrefixKeys();
    sequence.prefixKeys = keys;
    // At least one token must be computed: its scores draw the next one.
    for (let end = blockSize; end < sequence.length; end += blockSize) {
      keys.push(tokens, end - blockSize, end, this.#version);
      const block = this.#pool.find(keys, keys.length - 1);
      if (block === undefined) {
        keys.pop();
        break;
      }
      this.#pool.share(block);
      sequence.blocks.push(block);
      sequence.numComputed = end;
    }
    if (this.#states !== null) this.#adoptState(sequence, keys, this.#states);
  }

  /** Goes back to where a state was kept, which may be the start. */
  #adoptState(sequence: Sequence, keys: PrefixKeys, states: BlockPool): void {
    const { blocks } = sequence;
    while (blocks.length > 0) {
      const slot = states.find(keys, keys.length - 1);
      if (slot !== undefined) {
        sequence.stateSource = slot;
        states.share(slot);
        return;
      }
      this.#pool.release(blocks.pop()!);
      keys.pop();
      sequence.numComputed -= this.#pool.blockSize;
    }
  }

  #record(sequence: Sequence, numTokens: number): void {
    sequence.numComputed += numTokens;
    this.#publish(sequence);
    this.#publishState(sequence);
  }

  #publish(sequence: Sequence): void {
    const keys = sequence.prefixKeys;
    if (keys === null) return;
    const { blockSize } = this.#pool;
    const numFull = Math.floor(sequence.numComputed / blockSize);
    if (numFull === keys.length) return;
    const { tokens } = sequence;
    for (let index = keys.length; index < numFull; index++) {
      keys.push(tokens, index * blockSize, (index + 1) * blockSize, this.#version);
      this.#pool.publish(sequence.blocks[index]!, keys, index);
    }
  }

  #publishState(sequence: Sequence): void {
    const { stateMark, prefixKeys } = sequence;
    if (stateMark !== null && prefixKeys !== null) {
      const index = stateMark.length / this.#pool.blockSize - 1;
      if (index < prefixKeys.length) this.#states?.publish(stateMark.slot, prefixKeys, index);
    }
    this.#releaseStates(sequence);
  }

  #pieceOf(sequence: Sequence, numTokens: number): Piece {
    const isLast = numTokens === sequence.numPending;
    if (isLast && numTokens > 1) this.#markState(sequence);
    return { sequence, numTokens, isLast };
  }

  /** Has the step keep the state at the end of the last full block, before the last token, if no sequence may need the slot. */
  #markState(sequence: Sequence): void {
    const { blockSize } = this.#pool;
    const numSpare = (this.#states?.numAvailable ?? 0) - (this.#limits.maxRunning - this.#running.size);
    const length = Math.floor((sequence.length - 1) / blockSize) * blockSize;
    if (numSpare <= 0 || length <= sequence.numComputed || sequence.prefixKeys === null) return;
    sequence.stateMark = { slot: this.#states!.take()!, length };
  }
}
