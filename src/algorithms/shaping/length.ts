/** Rewards that depend on the length of a reply and on whether it is right. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectPositive, expectRange } from "../expect-batch.ts";

/**
 * Per sample of one group: lambda = 0.5 - (length - shortest) / (longest - shortest); lambda when right, min(0, lambda)
 * when wrong. Prefers the short among the right ones and never rewards a wrong one. All 0 when lengths are equal.
 *
 * Source: Kimi k1.5, arXiv:2501.12599, section 2.3.3.
 */
export function groupLengthReward(lengths: readonly number[], isCorrect: readonly boolean[]): number[] {
  if (lengths.length !== isCorrect.length) {
    throw new RerollError(
      "SHAPE_MISMATCH",
      `lengths has ${lengths.length} entries but isCorrect has ${isCorrect.length}. Both must have one per sample.`,
    );
  }
  for (const length of lengths) expectRange("length", length, 0);
  const shortest = lengths.reduce((low, length) => Math.min(low, length), Number.POSITIVE_INFINITY);
  const longest = lengths.reduce((high, length) => Math.max(high, length), 0);
  return lengths.map((length, i) => {
    if (longest === shortest) return 0;
    const lambda = 0.5 - (length - shortest) / (longest - shortest);
    return isCorrect[i] ? lambda : Math.min(0, lambda);
  });
}

interface CosineLengthOptions {
  /** Where the curve ends, in tokens. */
  readonly maxLength: number;
  /** The reward of a right reply, from length 0 to maxLength. Default [2, 1]: short is better. */
  readonly correct?: readonly [short: number, long: number];
  /** The reward of a wrong reply. Default [-10, 0]: thinking longer is better. */
  readonly wrong?: readonly [short: number, long: number];
  /** The reward beyond maxLength, right or wrong. Default -10. */
  readonly exceeded?: number;
}

/**
 * long + (short - long) (1 + cos(pi length / maxLength)) / 2.
 *
 * Source: arXiv:2502.03373, section 4, whose values are the defaults.
 */
export function cosineLengthReward(
  length: number,
  isCorrect: boolean,
  { maxLength, correct = [2, 1], wrong = [-10, 0], exceeded = -10 }: CosineLengthOptions,
): number {
  expectRange("length", length, 0);
  expectPositive("maxLength", maxLength);
  if (length > maxLength) return exceeded;
  const [short, long] = isCorrect ? correct : wrong;
  return long + ((short - long) * (1 + Math.cos((Math.PI * length) / maxLength))) / 2;
}
