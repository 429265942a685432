/** Overlong filtering: a reply that a limit cut short says nothing about how good it would have been. */
import type { Tensor } from "../../torch/tensor.ts";
import { keepRows } from "./row-filter.ts";

/**
 * The loss mask without the rows that were truncated.
 *
 * Source: DAPO, arXiv:2503.14476, section 3.4 (overlong filtering).
 */
export function maskTruncated(lossMask_BT: Tensor, isTruncated: readonly boolean[]): Tensor {
  return keepRows(
    lossMask_BT,
    isTruncated.map((truncated) => !truncated),
  );
}
