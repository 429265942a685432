/** How the rows of an objective become examples. */
import type { ChatFormat } from "../../chat/conversation.ts";
import type { PlacedRow } from "../../data/data-row.ts";
import type { TuningExample } from "../../flow/tuning-example.ts";

export interface ExampleReader {
  /** The names that `data.fields` may give columns for. */
  readonly fields: readonly string[];
  /** Turns a row into an example. Rejects with `DATA_INVALID` where that cannot be: see `rowError`. */
  readonly read: (row: PlacedRow, parts: ReaderParts) => Promise<TuningExample>;
}

/** What all rows of a run are read with. */
export interface ReaderParts {
  readonly format: ChatFormat;
  /** Columns in place of the usual ones. */
  readonly fields: Readonly<Record<string, string>>;
}
