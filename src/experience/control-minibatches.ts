/** Rows of a rollout, shuffled and cut: what one update of control reads. */
import type { Random } from "../random/random.ts";
import { tensor } from "../torch/create.ts";
import type { Tensor } from "../torch/tensor.ts";

/** Tensors by name whose first dimension is the row. */
export type Rows = Readonly<Record<string, Tensor>>;

/**
 * All rows once, in random order, in `count` parts of equal size; the last is smaller where they do not divide. The parts
 * are views of one shuffled copy, and belong to the scope of the caller.
 */
export function shuffledMinibatches<Names extends Rows>(rows: Names, count: number, random: Random): Names[] {
  const entries = Object.entries(rows);
  const numRows = entries[0]?.[1].size(0) ?? 0;
  const size = Math.ceil(numRows / count);
  const order = Int32Array.from(random.shuffled(Array.from({ length: numRows }, (_, row) => row)));
  const index = tensor(order, [numRows]);
  const columns = entries.map(
    ([name, values]) => [name, values.indexSelect(0, index.toDevice(values.device)).split(size)] as const,
  );
  return Array.from(
    { length: Math.ceil(numRows / size) },
    (_, part) => Object.fromEntries(columns.map(([name, parts]) => [name, parts[part]!])) as Names,
  );
}
