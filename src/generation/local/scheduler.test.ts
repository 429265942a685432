import fc from "fast-check";
import { expect, test } from "vitest";
import type { GenerateRequest } from "../generate.ts";
import { BlockPool } from "./block-pool.ts";
import { stateRow } from "./paged-cache.ts";
import { stateAfter, stateBefore } from "./piece-states.ts";
import { type Piece, Scheduler } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { SessionCache } from "./session-cache.ts";

test("a step continues running sequences first and fills its budget with prompts in order of arrival", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 4, maxStepTokens: 7 });
  const [first, second] = [engine.add([1, 2, 3, 4, 5]), engine.add([6, 7, 8, 9])];
  expect(engine.step()).toEqual([
    [first, 5],
    [second, 2],
  ]);
  expect([first.numDrawn, second.numDrawn]).toEqual([1, 0]);
  const third = engine.add([10]);
  expect(engine.step()).toEqual([
    [first, 1],
    [second, 2],
    [third, 1],
  ]);
  expect([first.numDrawn, second.numDrawn, third.numDrawn]).toEqual([2, 1, 1]);
});

test("a step ahead is reserved for those that run, and only while nobody else could join it", () => {
  const engine = new FakeEngine({ numBlocks: 3, blockSize: 4, maxRunning: 2, maxStepTokens: 100 });
  const { scheduler, pool } = engine;
  const [first, second] = [engine.add([1, 2]), engine.add([3, 4])];
  engine.step();
  // Three tokens each, the last not yet computed: the fourth fits into the block that is there.
  expect(scheduler.reserveAhead([first, second], 0)).toBe(true);
  expect(pool.numAvailable).toBe(1);
  // One of the two gets no token any more; but a sequence that is neither in the step nor ending runs elsewhere.
  expect([scheduler.reserveAhead([first], 1), scheduler.reserveAhead([first], 0)]).toEqual([true, false]);
  expect(scheduler.reserveAhead([], 2)).toBe(false);
  const third = engine.add([5]);
  // Somebody waits: a full house goes on, a free place has to be filled first.
  expect([scheduler.reserveAhead([first, second], 0), scheduler.reserveAhead([first], 1)]).toEqual([true, false]);
  engine.step();
  // Four tokens each: the fifth needs a block, and there is one left for two.
  expect(scheduler.reserveAhead([first, second], 0)).toBe(false);
  for (const sequence of [first, second, third]) engine.finish(sequence);
  engine.expectNothingHeld();
});

test("prompts that come one by one are gathered while many decode, and start as soon as enough of them wait", () => {
  const sizes = { numBlocks: 100, blockSize: 4, maxRunning: 64, maxStepTokens: 1000, gathersPrompts: true };
  const engine = new FakeEngine(sizes);
  const running = Array.from({ length: 40 }, (_, i) => engine.add([i]));
  expect(engine.step()).toHaveLength(40);
  // Three are a sixteenth of forty, two are not.
  const [first, second] = [engine.add([90]), engine.add([91])];
  expect([engine.scheduler.hasPrompts, engine.scheduler.reserveAhead(running, 0)]).toEqual([false, true]);
  expect(engine.step()).toHaveLength(40);
  const third = engine.add([92]);
  expect([engine.scheduler.hasPrompts, engine.scheduler.reserveAhead(running, 0)]).toEqual([true, false]);
  expect(engine.step().slice(40)).toEqual([first, second, third].map((sequence) => [sequence, 1]));
});

test("a prompt that is gathered waits for sixteen steps at most, and not at all where nothing runs", () => {
  const sizes = { numBlocks: 2000, blockSize: 4, maxRunning: 64, maxStepTokens: 1000, gathersPrompts: true };
  const engine = new FakeEngine(sizes);
  engine.add([0]);
  expect(engine.step()).toHaveLength(1);
  for (let i = 1; i < 40; i++) engine.add([i]);
  expect(engine.step()).toHaveLength(40);
  // Steps in which nobody waits do not count.
  for (let i = 0; i < 20; i++) engine.step();
  engine.add([90]);
  const numTogether = Array.from({ length: 18 }, () => engine.step().length);
  expect(numTogether).toEqual([...Array.from({ length: 16 }, () => 40), 41, 41]);
});

test("no more sequences run at a time than are allowed", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 2, maxStepTokens: 100 });
  const [first, second, third] = [engine.add([1]), engine.add([2]), engine.add([3])];
  expect(engine.step().map(([sequence]) => sequence)).toEqual([first, second]);
  engine.finish(first);
  expect(engine.step().map(([sequence]) => sequence)).toEqual([second, third]);
});

test("when blocks run out the youngest gives its own back, and starts over with its tokens when there is room", () => {
  const engine = new FakeEngine({ numBlocks: 3, blockSize: 4, maxRunning: 4, maxStepTokens: 100 });
  const [old, young] = [engine.add([1, 2, 3, 4]), engine.add([5, 6, 7])];
  engine.step();
  engine.step();
  expect(engine.pool.numAvailable).toBe(0);
  // The young one has 5 tokens and needs a second block; it is the youngest itself.
  expect(engine.step()).toEqual([[old, 1]]);
  expect(young.blocks).toEqual([]);
  expect(young.length).toBe(5);
  engine.finish(old);
  expect(engine.step()).toEqual([[young, 1]]);
  expect(young.numDrawn).toBe(3);
});

test("samples of one prompt compute it once: full blocks are shared and the last one is copied", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  const samples = [1, 2, 3].map(() => engine.add([1, 2, 3, 4, 5, 6]));
  const [leader, ...followers] = samples;
  expect(engine.step()).toEqual([[leader, 6]]);
  expect(samples.map(({ numDrawn }) => numDrawn)).toEqual([1, 1, 1]);
  for (const follower of followers) {
    expect(follower.blocks[0]).toBe(leader!.blocks[0]);
    expect(follower.blocks[1]).not.toBe(leader!.blocks[1]);
    expect(follower.usage()).toEqual({ promptTokens: 6, cachedTokens: 6, generatedTokens: 1 });
  }
  expect(engine.pool.numAvailable).toBe(16 - 1 - 3);
});

test("a prompt of whole blocks is shared without a copy", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  const [leader, follower] = [engine.add([1, 2, 3, 4]), engine.add([1, 2, 3, 4])];
  engine.step();
  expect(follower.blocks).toEqual(leader.blocks);
  expect(engine.numCopies).toBe(0);
  engine.step();
  expect(follower.blocks[1]).not.toBe(leader.blocks[1]);
});

test("samples for which there is no place wait, and find the full blocks of the prompt", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 2, maxStepTokens: 100 });
  const samples = [1, 2, 3].map(() => engine.add([1, 2, 3, 4, 5, 6]));
  engine.step();
  expect(samples.map(({ numDrawn }) => numDrawn)).toEqual([1, 1, 0]);
  engine.finish(samples[0]!);
  expect(engine.step()).toEqual([
    [samples[1], 1],
    [samples[2], 2],
  ]);
  expect(samples[2]!.usage().cachedTokens).toBe(4);
});

test("when the one that computes a prompt is aborted, the next one goes on from what it computed", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 5 });
  const [leader, second, third] = [1, 2, 3].map(() => engine.add([1, 2, 3, 4, 5, 6, 7])) as Three;
  expect(engine.step()).toEqual([[leader, 5]]);
  expect(engine.scheduler.numWaiting).toBe(2);
  engine.finish(leader);
  expect(engine.step()).toEqual([[second, 3]]);
  expect([second.numDrawn, third.numDrawn]).toEqual([1, 1]);
});

test("a sample that is aborted while it waits for its prompt is gone", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 5 });
  const [, second, third] = [1, 2, 3].map(() => engine.add([1, 2, 3, 4, 5, 6, 7])) as Three;
  engine.step();
  engine.finish(second);
  engine.step();
  expect([second.numDrawn, third.numDrawn]).toEqual([0, 1]);
});

test("a prompt finds the blocks of an earlier one that began like it", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  engine.run(engine.add([1, 2, 3, 4, 5, 6, 7, 8, 9]), 1);
  const later = engine.add([1, 2, 3, 4, 9, 9, 9]);
  expect(engine.step()).toEqual([[later, 3]]);
  expect(later.usage().cachedTokens).toBe(4);
});

test("a prompt is never all in the cache, since its last token must be scored", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  engine.run(engine.add([1, 2, 3, 4, 5, 6, 7, 8]), 1);
  const again = engine.add([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(engine.step()).toEqual([[again, 4]]);
});

test("the next turn of a session computes its new tokens only", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  const turn = engine.add([1, 2, 3, 4, 5], "a");
  engine.run(turn, 3);
  const next = engine.add([...turn.tokens, 20, 21], "a");
  // The last token of a reply was drawn and never computed.
  expect(engine.step()).toEqual([[next, 3]]);
  expect(next.usage()).toMatchObject({ promptTokens: 10, cachedTokens: 7 });
});

test("a session whose prompt does not extend its tokens starts from the blocks that still fit", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  engine.run(engine.add([1, 2, 3, 4, 5], "a"), 3);
  const next = engine.add([1, 2, 3, 4, 7, 7], "a");
  expect(engine.step()).toEqual([[next, 2]]);
  engine.finish(next);
  engine.expectNothingHeld();
});

test("caches of sessions give way to running sequences, the longest unused first", () => {
  const engine = new FakeEngine({ numBlocks: 4, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  engine.run(engine.add([1, 2, 3, 4, 5], "old"), 1);
  engine.run(engine.add([6, 7], "new"), 1);
  engine.run(engine.add([10, 11, 12, 13, 14]), 1);
  const [old, recent] = [engine.add([1, 2, 3, 4, 5, 9, 9, 9], "old"), engine.add([6, 7, 9, 9], "new")];
  engine.step();
  // The old one has lost the block that nobody else could name, and finds its full one by content.
  expect([old, recent].map((sequence) => sequence.usage().cachedTokens)).toEqual([4, 2]);
});

test("after new weights no prompt starts from old keys and values, and running sequences go on with theirs", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  engine.run(engine.add([1, 2, 3, 4, 5], "a"), 2);
  const running = engine.add([6, 7, 8, 9, 10]);
  engine.step();
  engine.setVersion(1);
  const [session, same] = [engine.add([1, 2, 3, 4, 5, 6], "a"), engine.add([6, 7, 8, 9, 10])];
  expect(engine.step()).toEqual([
    [running, 1],
    [session, 6],
    [same, 5],
  ]);
});

test("after new weights the samples that waited for a half computed prompt compute it anew", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 6 });
  const [leader, second, third] = [1, 2, 3].map(() => engine.add([1, 2, 3, 4, 5, 6, 7])) as Three;
  engine.step();
  engine.setVersion(1);
  expect(engine.step()).toEqual([
    [leader, 1],
    [second, 5],
  ]);
  engine.step();
  expect([leader, second, third].map(({ numCached }) => numCached)).toEqual([0, 0, 7]);
});

test("a cache with keys of two versions in it is not kept for the session", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 8, maxStepTokens: 100 });
  const turn = engine.add([1, 2, 3, 4, 5], "a");
  engine.step();
  engine.setVersion(1);
  engine.run(turn, 3);
  const next = engine.add([...turn.tokens, 9], "a");
  expect(engine.step()).toEqual([[next, 9]]);
});

test("with states, a prompt starts from where the state of one that began alike was kept, and from nothing where there is none", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 2, maxStepTokens: 100, numStates: 3 });
  engine.run(engine.add([1, 2, 3, 4, 5, 6, 7, 8, 9]), 1);
  const [alike, shorter] = [engine.add([1, 2, 3, 4, 5, 6, 7, 8, 10]), engine.add([1, 2, 3, 4, 5, 6])];
  expect(engine.step()).toEqual([
    [alike, 1],
    [shorter, 6],
  ]);
  expect([alike.usage().cachedTokens, shorter.usage().cachedTokens]).toEqual([8, 0]);
});

test("with states, the next turn of a session goes on from its own, and a session gives it up where a prompt needs a place", () => {
  const engine = new FakeEngine({ numBlocks: 16, blockSize: 4, maxRunning: 1, maxStepTokens: 100, numStates: 1 });
  const turn = engine.add([1, 2, 3], "a");
  engine.run(turn, 3);
  const next = engine.add([...turn.tokens, 9], "a");
  expect(engine.step()).toEqual([[next, 2]]);
  engine.finish(next);
  const other = engine.add([7, 8]);
  expect(engine.step()).toEqual([[other, 2]]);
  engine.finish(other);
  const late = engine.add([...next.tokens, 10], "a");
  expect(engine.step()).toEqual([[late, 9]]);
});

const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      prefix: fc.integer({ min: 0, max: 2 }),
      length: fc.integer({ min: 1, max: 14 }),
      maxTokens: fc.integer({ min: 1, max: 10 }),
      copies: fc.integer({ min: 1, max: 4 }),
      session: fc.option(fc.constantFrom("a", "b"), { nil: undefined }),
    }),
  },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant("steps" as const), count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("abort" as const), which: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("weights" as const) }) },
);

const sizes = fc.record({
  blockSize: fc.integer({ min: 1, max: 5 }),
  spareBlocks: fc.integer({ min: 0, max: 12 }),
  maxRunning: fc.integer({ min: 1, max: 6 }),
  maxStepTokens: fc.integer({ min: 1, max: 20 }),
  spareStates: fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined }),
});

test("whatever happens, every sequence finds its own tokens in its blocks and its state, all end, and nothing stays held", () => {
  fc.assert(
    fc.property(
      sizes,
      fc.array(action, { maxLength: 40 }),
      ({ blockSize, spareBlocks, spareStates, ...limits }, actions) => {
        const numBlocks = Math.ceil(24 / blockSize) + spareBlocks;
        const numStates = spareStates === undefined ? 0 : limits.maxRunning + spareStates;
        const engine = new FakeEngine({ blockSize, numBlocks, numStates, ...limits });
        const goals = new Map<Sequence, number>();
        const step = () => {
          const pieces = engine.step();
          expect(pieces.reduce((sum, [, numTokens]) => sum + numTokens, 0)).toBeLessThanOrEqual(limits.maxStepTokens);
          expect(engine.scheduler.numRunning).toBeLessThanOrEqual(limits.maxRunning);
          for (const [sequence, goal] of goals) if (sequence.numDrawn >= goal) end(sequence);
          return pieces.length > 0;
        };
        const end = (sequence: Sequence) => {
          engine.finish(sequence);
          goals.delete(sequence);
        };
        for (const one of actions) {
          if (one.kind === "add") {
            const prompt = Array.from({ length: one.length }, (_, i) => (i < 9 ? 1 + i : 100 * one.prefix + i));
            for (let i = 0; i < one.copies; i++) goals.set(engine.add(prompt, one.session), one.maxTokens);
          } else if (one.kind === "steps") for (let i = 0; i < one.count; i++) step();
          else if (one.kind === "weights") engine.setVersion(engine.version + 1);
          else if (goals.size > 0) end([...goals.keys()][one.which % goals.size]!);
        }
        let numSteps = 0;
        while (step()) expect(++numSteps).toBeLessThan(20_000);
        expect(goals.size).toBe(0);
        engine.expectNothingHeld();
      },
    ),
    { numRuns: 500, seed: 1 },
  );
});

type Three = [Sequence, Sequence, Sequence];

interface Sizes {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxRunning: number;
  readonly maxStepTokens: number;
  readonly reprefills?: boolean;
  readonly gathersPrompts?: boolean;
  /** Slots for states. Default 0: the model has none. */
  readonly numStates?: number;
}

/** An engine without a model: what would be keys and values, or a state, is the version and all tokens up to that place. */
class FakeEngine {
  readonly pool: BlockPool;
  readonly states: BlockPool | null;
  readonly scheduler: Scheduler;
  version = 0;
  numCopies = 0;
  #numSequences = 0;
  readonly #cells: { version: number; prefix: string }[] = [];
  readonly #stateRows: { version: number; prefix: string }[] = [];
  readonly #computed = new Map<Sequence, number>();

  constructor(sizes: Sizes) {
    const { numBlocks, blockSize, maxRunning, maxStepTokens, reprefills = false, numStates = 0 } = sizes;
    const { gathersPrompts = false } = sizes;
    this.pool = new BlockPool(numBlocks, blockSize);
    this.states = numStates === 0 ? null : new BlockPool(numStates, 1);
    const limits = { maxRunning, maxStepTokens, reprefills, gathersPrompts };
    this.scheduler = new Scheduler(this.pool, new SessionCache(this.pool, this.states), limits, 0, this.states);
  }

  add(promptIds: ArrayLike<number>, sessionId?: string): Sequence {
    const request: GenerateRequest = {
      promptIds,
      sampling: { maxTokens: 100 },
      ...(sessionId === undefined ? {} : { sessionId }),
    };
    const sequence = new Sequence(this.#numSequences++, request, 0);
    this.scheduler.add(sequence);
    return sequence;
  }

  /** Plans and computes a step, and returns what was in it. */
  step(): [Sequence, number][] {
    const pieces = this.scheduler.plan();
    for (const piece of pieces) this.#compute(piece);
    for (const piece of pieces) {
      const { followers, blocks, stateRows } = this.scheduler.complete(piece);
      for (const { from, to } of blocks) this.#copy(from, to);
      for (const { from, to } of stateRows) this.#stateRows[to] = this.#stateRows[from]!;
      const ended = piece.isLast ? [piece.sequence, ...followers] : [];
      for (const sequence of ended) {
        this.#expectPrefix(sequence, followers.includes(sequence));
        const certain = { samplerLogprobs: [0], drawLogprobs: [0], modelLogprobs: [0] };
        sequence.append({ tokenIds: [50 + sequence.length], ...certain }, 0, 0);
      }
      for (const sequence of [piece.sequence, ...followers]) this.#computed.set(sequence, sequence.numComputed);
    }
    return pieces.map(({ sequence, numTokens }) => [sequence, numTokens]);
  }

  /** Steps until the sequence has this many tokens drawn, and takes it out. */
  run(sequence: Sequence, numDraws: number): void {
    while (sequence.numDrawn < numDraws) this.step();
    this.finish(sequence);
  }

  finish(sequence: Sequence): void {
    this.scheduler.remove(sequence);
  }

  setVersion(version: number): void {
    this.version = version;
    this.scheduler.setVersion(version);
  }

  /** With sessions out of the way, which only new weights force. */
  expectNothingHeld(): void {
    this.setVersion(this.version + 1);
    expect(this.scheduler.numRunning + this.scheduler.numWaiting).toBe(0);
    expect(this.pool.numAvailable).toBe(this.pool.numBlocks);
    expect(this.states?.numAvailable).toBe(this.states?.numBlocks);
  }

  #compute({ sequence, numTokens }: Piece): void {
    const hasJustStarted = this.#computed.get(sequence) !== sequence.numComputed;
    this.#expectPrefix(sequence, hasJustStarted);
    if (this.states !== null) this.#advanceState(sequence, numTokens, hasJustStarted);
    for (let i = sequence.numComputed; i < sequence.numComputed + numTokens; i++) {
      this.#cells[this.#slot(sequence, i)] = { version: this.version, prefix: prefixOf(sequence, i) };
    }
  }

  #advanceState(sequence: Sequence, numTokens: number, isFresh: boolean): void {
    const { numComputed, stateMark } = sequence;
    const from = stateBefore(sequence, numComputed, { emptyState: -1 });
    expect(from === -1).toBe(numComputed === 0);
    if (from !== -1) {
      expect(this.#stateRows[from]!.prefix).toBe(prefixOf(sequence, numComputed - 1));
      if (isFresh) expect(this.#stateRows[from]!.version).toBe(this.version);
    }
    const last = numComputed + numTokens - 1;
    const left = (position: number) => ({ version: this.version, prefix: prefixOf(sequence, position) });
    if (stateMark !== null) this.#stateRows[stateRow(stateMark.slot, stateMark.length)] = left(stateMark.length - 1);
    this.#stateRows[stateAfter(sequence, last)] = left(last);
  }

  #expectPrefix(sequence: Sequence, isFresh: boolean): void {
    for (let i = 0; i < sequence.numComputed; i++) {
      const cell = this.#cells[this.#slot(sequence, i)]!;
      if (cell.prefix !== prefixOf(sequence, i)) expect(cell.prefix).toBe(prefixOf(sequence, i));
      if (isFresh && cell.version !== this.version) expect(cell.version).toBe(this.version);
    }
  }

  #slot({ blocks }: Sequence, position: number): number {
    const { blockSize } = this.pool;
    return blocks[Math.floor(position / blockSize)]! * blockSize + (position % blockSize);
  }

  #copy(from: number, to: number): void {
    const { blockSize } = this.pool;
    this.numCopies++;
    for (let i = 0; i < blockSize; i++) {
      const cell = this.#cells[from * blockSize + i];
      if (cell !== undefined) this.#cells[to * blockSize + i] = cell;
    }
  }
}

function prefixOf({ tokens }: Sequence, position: number): string {
  return tokens.subarray(0, position + 1).join(" ");
}
