/** Keeps prompts that are neither solved nor out of reach. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { GroupKey } from "../../flow/token-batch.ts";
import { expectKeys } from "../advantages/group-rows.ts";
import { expectRange } from "../expect-batch.ts";
import { decideByGroup } from "./row-filter.ts";

interface DifficultyOptions {
  /** Groups at or below this pass rate are too hard. Default 0: at least one sample must pass. */
  readonly low?: number;
  /** Groups at or above this pass rate are too easy. Default 1: at least one sample must fail. */
  readonly high?: number;
}

/**
 * Per row, whether the pass rate of its group lies strictly between the bounds: low < passed / samples < high.
 *
 * Source: the difficulty mask of ROLL and the dynamic filtering range of OpenRLHF.
 */
export function isLearnable(
  isPassed: readonly boolean[],
  groupOf: readonly GroupKey[],
  { low = 0, high = 1 }: DifficultyOptions = {},
): boolean[] {
  expectKeys("groupOf", groupOf, isPassed.length);
  expectRange("low", low, 0, 1);
  expectRange("high", high, 0, 1);
  if (low >= high) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `low must be below high: got ${low} and ${high}. No pass rate lies between them.`,
      { low, high },
    );
  }
  return decideByGroup(groupOf, (rows) => {
    const passRate = rows.filter((row) => isPassed[row]).length / rows.length;
    return passRate > low && passRate < high;
  });
}
