/** A penalty for replies that are too long. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectPositive, expectRange } from "../expect-batch.ts";

interface SoftOverlongOptions {
  /** Maximum length of a reply, in tokens. */
  readonly maxTokens: number;
  /** How many tokens before `maxTokens` the penalty starts to grow. */
  readonly bufferTokens: number;
  /** The penalty at `maxTokens` and beyond. Default 1, as in the paper. */
  readonly penalty?: number;
}

/**
 * 0 up to maxTokens - bufferTokens, then linear down to -penalty at maxTokens, and -penalty beyond. To be added to the reward.
 *
 * Source: DAPO, arXiv:2503.14476, eq. 13. verl lets the penalty grow beyond maxTokens; a reply cannot be that long there.
 */
export function softOverlongPenalty(
  numTokens: number,
  { maxTokens, bufferTokens, penalty = 1 }: SoftOverlongOptions,
): number {
  expectRange("numTokens", numTokens, 0);
  expectPositive("maxTokens", maxTokens);
  expectPositive("bufferTokens", bufferTokens);
  expectRange("penalty", penalty, 0);
  if (bufferTokens > maxTokens) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `bufferTokens must be at most maxTokens: got ${bufferTokens} and ${maxTokens}. It is the last part of the allowed length.`,
      { bufferTokens, maxTokens },
    );
  }
  const excess = Math.min(Math.max(numTokens - (maxTokens - bufferTokens), 0), bufferTokens);
  return excess === 0 ? 0 : (-penalty * excess) / bufferTokens;
}
