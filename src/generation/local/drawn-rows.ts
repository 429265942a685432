/** What a step drew, row after row. Columns and not objects: at a hundred thousand tokens a second those would be work for the collector. */
import type { TokenLogprob } from "../../flow/sampled-tokens.ts";

export interface DrawnRows {
  readonly tokenIds: ArrayLike<number>;
  readonly samplerLogprobs: ArrayLike<number>;
  readonly modelLogprobs: ArrayLike<number>;
  readonly drawLogprobs: ArrayLike<number>;
  /** The likeliest tokens of each row, where a row asked for them. */
  readonly topLogprobs?: readonly (readonly TokenLogprob[])[];
}

/** Whether the scores that a row was drawn from were numbers, so that there is a token. */
export function isDrawn({ tokenIds, samplerLogprobs, drawLogprobs, modelLogprobs }: DrawnRows, row: number): boolean {
  if (!(tokenIds[row]! >= 0)) return false;
  return (
    Number.isFinite(samplerLogprobs[row]) && Number.isFinite(drawLogprobs[row]) && Number.isFinite(modelLogprobs[row])
  );
}
