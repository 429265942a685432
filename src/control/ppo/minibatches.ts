/** The rows of a rollout, shuffled and cut into minibatches. */
import type { Random } from "../../random/random.ts";
import { tensor } from "../../torch/create.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** Named tensors whose first dimension is the row. */
export type Rows = Readonly<Record<string, Tensor>>;

/**
 * Returns all rows once, in random order, in `count` minibatches whose sizes differ by at most one row (fewer if there are not
 * enough rows). Minibatches are views of one shuffled copy, and belong to the scope of the caller.
 */
export function shuffledMinibatches<Names extends Rows>(rows: Names, count: number, random: Random): Names[] {
  const entries = Object.entries(rows);
  const numRows = entries[0]?.[1].size(0) ?? 0;
  const numParts = Math.min(count, numRows);
  const starts = Array.from({ length: numParts + 1 }, (_, part) => Math.floor((part * numRows) / numParts));
  const order = Int32Array.from(random.shuffled(Array.from({ length: numRows }, (_, row) => row)));
  const index = tensor(order, [numRows]);
  const columns = entries.map(
    ([name, values]) => [name, values.indexSelect(0, index.toDevice(values.device))] as const,
  );
  return starts.slice(0, -1).map((start, part) => {
    const size = starts[part + 1]! - start;
    return Object.fromEntries(columns.map(([name, values]) => [name, values.narrow(0, start, size)])) as Names;
  });
}
