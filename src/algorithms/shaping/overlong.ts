/** Penalties for replies that are too long. */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectPositive, expectRange } from "../expect-batch.ts";

interface SoftOverlongOptions {
  /** The longest reply allowed, in tokens. */
  readonly maxLength: number;
  /** How many tokens before `maxLength` the penalty starts to grow. */
  readonly buffer: number;
  /** The penalty at and beyond `maxLength`. Default 1, the paper's. */
  readonly factor?: number;
}

/**
 * 0 up to maxLength - buffer, then linear down to -factor at maxLength, and -factor beyond. To be added to the reward.
 *
 * Source: DAPO, arXiv:2503.14476, eq. 13. verl lets the penalty grow beyond maxLength; a reply cannot be that long there.
 */
export function softOverlongPenalty(length: number, { maxLength, buffer, factor = 1 }: SoftOverlongOptions): number {
  expectRange("length", length, 0);
  expectPositive("maxLength", maxLength);
  expectPositive("buffer", buffer);
  expectRange("factor", factor, 0);
  if (buffer > maxLength) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      `buffer must be at most maxLength: got ${buffer} and ${maxLength}. It is the last part of the allowed length.`,
      { buffer, maxLength },
    );
  }
  const excess = Math.min(Math.max(length - (maxLength - buffer), 0), buffer);
  return excess === 0 ? 0 : (-factor * excess) / buffer;
}

interface HardOverlongOptions {
  /** The longest reply that costs nothing, in tokens. */
  readonly maxLength: number;
  /** What a longer one costs. Default 1. */
  readonly penalty?: number;
}

/** 0 up to maxLength, -penalty beyond. To be added to the reward. */
export function hardOverlongPenalty(length: number, { maxLength, penalty = 1 }: HardOverlongOptions): number {
  expectRange("length", length, 0);
  expectRange("maxLength", maxLength, 0);
  expectRange("penalty", penalty, 0);
  return length > maxLength ? -penalty : 0;
}
