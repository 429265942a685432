/** Parts of tensors as plain data: what a rank has of a tensor, how the whole comes back from all parts, and how another rank's part is cut from it. */
import { noGrad } from "../autograd.ts";
import { empty } from "../create.ts";
import type { DType } from "../dtype.ts";
import type { Tensor } from "../tensor.ts";
import { rangeOf } from "./collective.ts";
import { type Cut, partOf } from "./split.ts";

/** A cut along one dimension, a stretch of that or of the whole, or everything. */
export interface TensorPart {
  readonly cut: Cut | null;
  /** Elements `start` to `start + length` of it, flattened. */
  readonly stretch: { readonly start: number; readonly length: number } | null;
}

/** The part of a whole tensor: flat where it is a stretch. */
export function cutPart(whole: Tensor, { cut, stretch }: TensorPart): Tensor {
  const part = cut === null ? whole : partOf(whole, cut);
  return stretch === null ? part : part.reshape(-1).narrow(0, stretch.start, stretch.length);
}

/** The whole tensor, in host memory, from parts that leave nothing of it out. */
export function joinParts(
  { dtype, shape }: { readonly dtype: DType; readonly shape: readonly number[] },
  parts: readonly { readonly part: TensorPart; readonly value: Tensor }[],
): Tensor {
  return noGrad(() => {
    const whole = empty(shape, { dtype });
    const ofCut = new Map<string, { readonly cut: Cut | null; readonly values: typeof parts }>();
    for (const one of parts) {
      const { cut } = one.part;
      const key = cut === null ? "" : `${cut.ranks.index}`;
      ofCut.set(key, { cut, values: [...(ofCut.get(key)?.values ?? []), one] });
    }
    for (const { cut, values } of ofCut.values()) {
      const place = empty(cut === null ? shape : shapeOf(shape, cut), { dtype });
      for (const { part, value } of values) cutPart(place, { cut: null, stretch: part.stretch }).copy_(value);
      if (cut === null) whole.copy_(place);
      else placeCut(whole, place, cut);
    }
    return whole;
  });
}

/** The shape of a cut of a tensor. */
function shapeOf(shape: readonly number[], { ranks, dim, sizes }: Cut): readonly number[] {
  const own = sizes.reduce((sum, size) => sum + rangeOf(size, ranks.index, ranks.count).length, 0);
  return shape.map((size, i) => (i === dim ? own : size));
}

/** Puts a cut where it belongs. */
function placeCut(whole: Tensor, part: Tensor, { ranks, dim, sizes }: Cut): void {
  let [from, to] = [0, 0];
  for (const size of sizes) {
    const { start, length } = rangeOf(size, ranks.index, ranks.count);
    whole.narrow(dim, to + start, length).copy_(part.narrow(dim, from, length));
    from += length;
    to += size;
  }
}
