/** Tensors that ranks hold a part of each: which part, and how the whole comes back. */
import { noGrad } from "../autograd.ts";
import { cat, empty } from "../create.ts";
import type { Tensor } from "../tensor.ts";
import { type Collective, rangeOf } from "./collective.ts";

/** A tensor is cut along one dimension. Where it holds several things side by side, each of them is cut. */
export interface Cut {
  /** How many parts there are, and which one is meant. */
  readonly ranks: { readonly index: number; readonly count: number };
  readonly dim: number;
  /** The whole sizes, along `dim`, of the things that lie side by side. */
  readonly sizes: readonly number[];
}

/** A cut whose parts ranks can ask each other for. */
export interface Split extends Cut {
  readonly ranks: Collective;
}

/** A cut without the ranks: plain data. */
export function cutOf({ ranks: { index, count }, dim, sizes }: Cut): Cut {
  return { ranks: { index, count }, dim, sizes };
}

/** This rank's part of a whole tensor. */
export function partOf(whole: Tensor, { ranks, dim, sizes }: Cut): Tensor {
  let offset = 0;
  const parts = sizes.map((size) => {
    const { start, length } = rangeOf(size, ranks.index, ranks.count);
    const part = whole.narrow(dim, offset + start, length);
    offset += size;
    return part;
  });
  return parts.length === 1 ? parts[0]! : cat(parts, dim);
}

/** What belongs in a place that holds this rank's part of one of the things of a split: `whole` is cut where the place is smaller. */
export function partFor(place: Tensor, whole: Tensor, shard: Cut | null): Tensor {
  const dim = place.shape.findIndex((size, i) => size !== whole.shape[i]);
  if (shard === null || dim < 0 || place.shape.length !== whole.shape.length) return whole;
  return partOf(whole, { ranks: shard.ranks, dim, sizes: [whole.size(dim)] });
}

/** How the whole of such a place is cut, where `numDims` is how many dimensions the split parameter has. */
export function cutFor<Ranks extends Cut["ranks"]>(
  { shape }: Pick<Tensor, "shape">,
  numDims: number,
  { ranks, dim, sizes }: Cut & { readonly ranks: Ranks },
): Cut & { readonly ranks: Ranks } {
  const own = dim - (numDims - shape.length);
  // Only the vocabulary is cut unevenly, and it has its parameter for itself.
  const size = sizes.length === 1 ? sizes[0]! : shape[own]! * ranks.count;
  return { ranks, dim: own, sizes: [size] };
}

/** The whole of such a place. Call it on all ranks. */
export function wholeFor(place: Tensor, numDims: number, split: Split): Tensor {
  return wholeOf(place, cutFor(place, numDims, split));
}

/** The whole of a tensor that each rank has its part of, on all ranks. Call it on all of them. */
export function wholeOf(part: Tensor, { ranks, dim, sizes }: Split): Tensor {
  return noGrad(() => {
    let offset = 0;
    const things = sizes.map((size) => {
      const { length } = rangeOf(size, ranks.index, ranks.count);
      const own = part.narrow(dim, offset, length);
      offset += length;
      return cat(piecesOf(own, size, dim, ranks), dim);
    });
    return things.length === 1 ? things[0]! : cat(things, dim);
  });
}

function piecesOf(own: Tensor, size: number, dim: number, ranks: Collective): Tensor[] {
  return Array.from({ length: ranks.count }, (_, rank) => {
    const shape = own.shape.map((length, i) => (i === dim ? rangeOf(size, rank, ranks.count).length : length));
    const piece =
      rank === ranks.index ? own.detach().contiguous().clone() : empty(shape, { dtype: own.dtype, device: own.device });
    return ranks.broadcast_(piece, rank);
  });
}
