/**
 * Linear attention over the pieces of a step: each goes on from the state of its sequence, and leaves the state after its last token.
 *
 * Pieces are cut where a state is to be kept for others. Parts of about one length are computed together; with `isSteady` tokens are
 * computed one after another, so that what they give does not depend, to the bit, on how their sequence was cut.
 */
import { invariant } from "../../errors/reroll-error.ts";
import type { TokenLayout } from "../../models/causal-lm/token-layout.ts";
import { tensor, zeros } from "../../torch/create.ts";
import type { Device } from "../../torch/dtype.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type PagedCache, stateRow } from "./paged-cache.ts";
import type { CachedSequence, StepPiece } from "./paged-layout.ts";
import { steadyMultiple } from "./steady-rows.ts";

/** The row of the state that the token at this position of a sequence goes on from. */
export function stateBefore(
  sequence: CachedSequence,
  position: number,
  { emptyState }: Pick<PagedCache, "emptyState">,
): number {
  const { stateSlot, stateSource, numComputed } = sequence;
  if (position === 0) return emptyState;
  return stateRow(position === numComputed && stateSource !== null ? stateSource : slotOf(stateSlot), position);
}

/** The row of the state that the token at this position leaves. */
export function stateAfter({ stateSlot }: CachedSequence, position: number): number {
  return stateRow(slotOf(stateSlot), position + 1);
}

/** The scan of a layout of these pieces, end to end, and tokens that mean nothing up to `size`. */
export function scanOver(
  pieces: readonly StepPiece[],
  cache: PagedCache,
  size: number,
  isSteady: boolean,
): TokenLayout["scan"] {
  // Before the layers: what a layer makes goes with its scope.
  const rounds = cache.hasStates ? roundsOf(pieces, cache, isSteady) : [];
  const rows = rounds.flatMap((parts) => rowsOf(isSteady ? filled(parts, cache) : parts, cache.device));
  return (layer, x_SX, { advance }) => {
    const { windows, memories } = cache.statesOf(layer);
    let made_SY: Tensor | null = null;
    for (const { T, tokens_S, lengths_B, from_B, to_B, meant, places } of rows) {
      const x_BTX = x_SX.indexSelect(0, tokens_S).view(-1, T, x_SX.size(1));
      const past = { window_BPC: windows.indexSelect(0, from_B), memory_BHKW: memories.indexSelect(0, from_B) };
      const { made_BTY, next } = advance(x_BTX, past, lengths_B);
      windows.indexCopy_(0, to_B, next.window_BPC);
      memories.indexCopy_(0, to_B, next.memory_BHKW);
      const all = made_BTY.flatten(0, 1);
      made_SY ??= zeros([size, all.size(1)], { dtype: all.dtype, device: all.device });
      made_SY.indexCopy_(0, places, meant === null ? all : all.indexSelect(0, meant));
    }
    invariant(made_SY !== null, "a step without pieces is computed");
    return made_SY;
  };
}

/** Tokens of a step from `start` on that go on from one row of states and leave another. */
interface Part {
  readonly start: number;
  readonly length: number;
  readonly from: number;
  readonly to: number;
  readonly isFilling?: boolean;
}

/** The first parts of all pieces, then the second ones, and so on: each reads what the one before it leaves. */
function roundsOf(pieces: readonly StepPiece[], cache: PagedCache, isSteady: boolean): Part[][] {
  const rounds: Part[][] = [];
  let start = 0;
  for (const { sequence, numTokens } of pieces) {
    const { numComputed, stateMark } = sequence;
    const end = numComputed + numTokens;
    const cuts = isSteady
      ? Array.from({ length: numTokens - 1 }, (_, i) => numComputed + i + 1)
      : stateMark === null
        ? []
        : [stateMark.length];
    let [first, from] = [numComputed, stateBefore(sequence, numComputed, cache)];
    [...cuts, end].forEach((cut, round) => {
      const isMarked = cut === stateMark?.length;
      const to = isMarked ? stateRow(stateMark.slot, cut) : stateAfter(sequence, cut - 1);
      rounds[round] ??= [];
      rounds[round].push({ start: start + first - numComputed, length: cut - first, from, to });
      [first, from] = [cut, to];
    });
    start += numTokens;
  }
  return rounds;
}

/** Up to a number of parts that is steady: see steadyMultiple. Those that fill up compute the first one again, and nobody reads it. */
function filled(parts: readonly Part[], { stateWidths, emptyState, scratchState }: PagedCache): Part[] {
  const count = steadyMultiple(stateWidths);
  const numFilling = (count - (parts.length % count)) % count;
  const filling = { start: parts[0]!.start, length: 1, from: emptyState, to: scratchState, isFilling: true };
  return [...parts, ...new Array<Part>(numFilling).fill(filling)];
}

/** Parts as rows of T tokens, on the device. */
interface Rows {
  readonly T: number;
  readonly tokens_S: Tensor;
  /** Null where all rows have T tokens. */
  readonly lengths_B: Tensor | null;
  readonly from_B: Tensor;
  readonly to_B: Tensor;
  /** Which of the B T tokens are tokens of the step, null for all of them, and where in the step they are. */
  readonly meant: Tensor | null;
  readonly places: Tensor;
}

/** Rows of 1, 2, 4, 8... tokens: parts are at most doubled, and the length of a row depends on its own part alone. */
function rowsOf(parts: readonly Part[], device: Device): Rows[] {
  const byLength = new Map<number, Part[]>();
  for (const part of parts) {
    const T = 2 ** Math.ceil(Math.log2(part.length));
    byLength.set(T, [...(byLength.get(T) ?? []), part]);
  }
  const int64 = (values: readonly number[]) =>
    tensor(Int32Array.from(values), [values.length], { device, dtype: "int64" });
  return [...byLength].map(([T, some]) => {
    const offsets = Array.from({ length: T }, (_, t) => t);
    const tokens = some.flatMap(({ start, length }) => offsets.map((t) => start + Math.min(t, length - 1)));
    const meant = some.flatMap(({ length, isFilling }, row) =>
      isFilling === true ? [] : offsets.slice(0, length).map((t) => row * T + t),
    );
    const isFull = meant.length === tokens.length;
    return {
      T,
      tokens_S: int64(tokens),
      lengths_B: some.every(({ length }) => length === T) ? null : int64(some.map(({ length }) => length)),
      from_B: int64(some.map(({ from }) => from)),
      to_B: int64(some.map(({ to }) => to)),
      meant: isFull ? null : int64(meant),
      places: int64(meant.map((place) => tokens[place]!)),
    };
  });
}

function slotOf(stateSlot: number | null): number {
  invariant(stateSlot !== null, "a sequence runs without a slot for its state");
  return stateSlot;
}
