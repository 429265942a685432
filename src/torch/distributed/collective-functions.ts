/**
 * What ranks tell each other within a forward pass, with gradients: the backward pass is the transpose over all ranks.
 *
 * So each rank may differentiate its own part of a loss: what reaches a tensor on all ranks together is the gradient of the sum of their losses.
 */
import { applyFunction } from "../autograd.ts";
import { cat } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { type Collective, rangeOf } from "./collective.ts";

/** The sum over all ranks, on all of them. */
export function sumOver(ranks: Collective, x: Tensor): Tensor {
  if (ranks.count === 1) return x;
  const sum = (value: Tensor) => ranks.reduce_(value.detach().contiguous().clone());
  const [out] = applyFunction(
    { forward: ([own]) => ({ outputs: [sum(own!)], saved: [] }), backward: ([grad]) => [sum(grad!)] },
    [x],
  );
  return out!;
}

/** The rows of this rank, of `x` that all ranks have. */
export function ownRows(ranks: Collective, x: Tensor): Tensor {
  if (ranks.count === 1) return x;
  const { start, length } = rangeOf(x.size(0), ranks.index, ranks.count);
  return x.narrow(0, start, length);
}

/** All `total` rows, on all ranks, from those of each: the inverse of `ownRows`. */
export function allRows(ranks: Collective, own: Tensor, total: number): Tensor {
  if (ranks.count === 1) return own;
  const ranges = Array.from({ length: ranks.count }, (_, rank) => rangeOf(total, rank, ranks.count));
  const { start, length } = ranges[ranks.index]!;
  const columns = own.shape.slice(1);
  const shapes = ranges.map((range) => [range.length, ...columns]);
  const [out] = applyFunction(
    {
      forward: ([x]) => ({
        outputs: [
          cat(
            ranks.swap(
              shapes.map(() => x!.detach().contiguous()),
              shapes,
            ),
          ),
        ],
        saved: [],
      }),
      backward: ([grad]) => [ranks.reduce_(grad!.contiguous().clone()).narrow(0, start, length)],
    },
    [own],
  );
  return out!;
}

/** Rows from every rank to every other: `out` says how many of `x`, in the order of ranks, go to each, and `back` how many come from each. */
export function tradeRows(ranks: Collective, x: Tensor, out: readonly number[], back: readonly number[]): Tensor {
  const [got] = applyFunction(
    {
      forward: ([rows]) => ({ outputs: [tradeOnce(ranks, rows!, out, back)], saved: [] }),
      backward: ([grad]) => [tradeOnce(ranks, grad!, back, out)],
    },
    [x],
  );
  return got!;
}

function tradeOnce(ranks: Collective, x: Tensor, out: readonly number[], back: readonly number[]): Tensor {
  const columns = x.shape.slice(1);
  const parts = x
    .detach()
    .contiguous()
    .splitSizes([...out]);
  return cat(
    ranks.swap(
      parts,
      back.map((count) => [count, ...columns]),
    ),
  );
}

/** From some rows with all heads to all `total` rows with some heads, [S, H, K]: the heads are dealt out. Jacobs et al. 2023 (Ulysses). */
export function headsOf(ranks: Collective, x_SHK: Tensor, total: number): Tensor {
  return ranks.count === 1 ? x_SHK : trade(ranks, x_SHK, total, "heads");
}

/** The inverse of `headsOf`. */
export function rowsOf(ranks: Collective, x_SHK: Tensor, total: number): Tensor {
  return ranks.count === 1 ? x_SHK : trade(ranks, x_SHK, total, "rows");
}

/** An exchange of all with all is its own transpose, with the two dimensions the other way around. */
function trade(ranks: Collective, x_SHK: Tensor, total: number, want: "heads" | "rows"): Tensor {
  const [out] = applyFunction(
    {
      forward: ([x]) => ({ outputs: [deal(ranks, x!, total, want)], saved: [] }),
      backward: ([grad]) => [deal(ranks, grad!, total, want === "heads" ? "rows" : "heads")],
    },
    [x_SHK],
  );
  return out!;
}

function deal(ranks: Collective, x_SHK: Tensor, total: number, want: "heads" | "rows"): Tensor {
  const { count, index } = ranks;
  const [, H, K] = x_SHK.shape as [number, number, number];
  const numRows = Array.from({ length: count }, (_, rank) => rangeOf(total, rank, count));
  if (want === "heads") {
    const parts = numRows.map((_, rank) => x_SHK.narrow(1, (rank * H) / count, H / count));
    return cat(
      ranks.swap(
        parts,
        numRows.map(({ length }) => [length, H / count, K]),
      ),
      0,
    );
  }
  const parts = numRows.map(({ start, length }) => x_SHK.narrow(0, start, length));
  return cat(
    ranks.swap(
      parts,
      numRows.map(() => [numRows[index]!.length, H, K]),
    ),
    1,
  );
}
