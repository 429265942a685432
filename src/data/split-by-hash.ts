/**
 * A split into training and validation rows that stays the same when rows are added, removed or put in another order.
 *
 * Each row is judged by a hash of its own content, so equal rows fall on the same side, and the validation rows of a small
 * share are among those of a larger one.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { deriveSeed } from "../random/random.ts";

/** The two sides of a split, each in the order of the rows. */
interface HashSplit<Row> {
  readonly train: Row[];
  readonly validation: Row[];
}

/** Puts about `share` of the rows, 0 to 1, into validation. `contentOf` gives the text that a row is judged by. */
export function splitByHash<Row>(
  rows: readonly Row[],
  share: number,
  contentOf: (row: Row) => string = (row) => JSON.stringify(row),
): HashSplit<Row> {
  if (!(share >= 0 && share <= 1)) {
    throw new RerollError("INVALID_ARGUMENT", `The share of validation rows must be 0 to 1: got ${share}.`, { share });
  }
  const split: HashSplit<Row> = { train: [], validation: [] };
  for (const row of rows) {
    const isValidation = deriveSeed(0, "split", contentOf(row)) < share * 2 ** 32;
    (isValidation ? split.validation : split.train).push(row);
  }
  return split;
}
