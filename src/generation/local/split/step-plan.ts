/** What the other ranks of a split engine have to know of a step, as numbers that travel in one broadcast. */
import type { StepPiece } from "../paged-layout.ts";
import type { CacheCopy } from "../scheduler.ts";

/** A step over the cache, or a prompt beside it whose tokens are scored. */
export type RankWork = PlannedStep | { readonly kind: "score"; readonly promptIds: Int32Array };

/** The pieces of a step, and what is copied in the cache before it. */
interface PlannedStep {
  readonly kind: "step";
  readonly blocks: readonly CacheCopy[];
  readonly stateRows: readonly CacheCopy[];
  readonly pieces: readonly StepPiece[];
  /** The tokens of all pieces, end to end. */
  readonly ids: Int32Array;
}

export function packWork(work: RankWork): Int32Array {
  if (work.kind === "score") return Int32Array.from([1, work.promptIds.length, ...work.promptIds]);
  const { blocks, stateRows, pieces, ids } = work;
  const numbers = [0, ...packCopies(blocks), ...packCopies(stateRows), pieces.length];
  for (const { sequence, numTokens, isLast } of pieces) {
    const { numComputed, stateSlot, stateSource, stateMark } = sequence;
    numbers.push(numTokens, isLast ? 1 : 0, numComputed, stateSlot ?? NONE, stateSource ?? NONE);
    numbers.push(stateMark?.slot ?? NONE, stateMark?.length ?? NONE, sequence.blocks.length, ...sequence.blocks);
  }
  const packed = new Int32Array(numbers.length + 1 + ids.length);
  packed.set(numbers);
  packed[numbers.length] = ids.length;
  packed.set(ids, numbers.length + 1);
  return packed;
}

export function unpackWork(packed: Int32Array): RankWork {
  let place = 0;
  const next = () => packed[place++]!;
  const list = () => {
    const length = next();
    place += length;
    return packed.subarray(place - length, place);
  };
  const copies = () => Array.from({ length: next() }, (): CacheCopy => ({ from: next(), to: next() }));
  if (next() === 1) return { kind: "score", promptIds: list() };
  const blocks = copies();
  const stateRows = copies();
  const pieces = Array.from({ length: next() }, (): StepPiece => {
    const [numTokens, isLast, numComputed] = [next(), next() === 1, next()];
    const [stateSlot, stateSource] = [orNull(next()), orNull(next())];
    const mark = { slot: next(), length: next() };
    const stateMark = mark.slot === NONE ? null : mark;
    return {
      numTokens,
      isLast,
      sequence: { numComputed, stateSlot, stateSource, stateMark, blocks: [...list()] },
    };
  });
  return { kind: "step", blocks, stateRows, pieces, ids: list() };
}

/** Stands for what is not there: slots are counted from 0. */
const NONE = -1;

function orNull(number: number): number | null {
  return number === NONE ? null : number;
}

function packCopies(copies: readonly CacheCopy[]): number[] {
  return [copies.length, ...copies.flatMap(({ from, to }) => [from, to])];
}
