/** A row as a reader yields it, before a schema makes a prompt of it. */
import type { JsonValue } from "../flow/prompt.ts";

/** One row of a data file: values by column. */
export type DataRow = Readonly<Record<string, JsonValue>>;

/** A row and where it stands. */
export interface PlacedRow {
  readonly row: DataRow;
  /** The path of the file, or the name of the array. */
  readonly file: string;
  /** Counts the rows of the file from 0. */
  readonly index: number;
}

/** Whether a value is an object with named fields, as every row is. */
export function isDataRow(value: unknown): value is DataRow {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
