/** What runs on given data learn from: token sequences that somebody wrote, and what the loss counts in them. */

/** One token sequence. Nothing changes once it is made. */
export interface TuningSequence {
  readonly tokenIds: Int32Array;
  /** 1 at the tokens that the loss counts. The first token is never one of them, since nothing predicts it. */
  readonly lossMask: Uint8Array;
}

/**
 * One row of data: the sequences that its loss compares, which go through the model together. Supervised learning has one of them, or
 * several where a template does not show earlier replies as they were written; a preference has the chosen reply and the rejected one.
 */
export interface TuningExample {
  readonly sequences: readonly TuningSequence[];
  /** Numbers that the objective reads, by name: of the row, such as a margin, or measured once, such as log-probs of a reference. */
  readonly numbers?: Readonly<Record<string, number>>;
}
