/** The data of tuning runs: which files, and which columns of their rows. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { z } from "zod";
import { dataFiles } from "../data/data-options.ts";
import type { PlacedRow } from "../data/data-row.ts";
import { listDataFiles, readRows } from "../data/read-rows.ts";
import { RerollError } from "../errors/reroll-error.ts";

const rowOptions = {
  fields: z
    .record(z.string(), z.string().min(1))
    .default({})
    .describe('Columns to read in place of the usual ones, by what they hold, as in { prompt: "question" }.'),
  skipInvalid: z
    .boolean()
    .default(false)
    .describe("Skip rows that cannot be read instead of failing. They are counted, and the first ones named."),
};

const fileOptions = { ...dataFiles, ...rowOptions };

/** Rows to learn from. */
export const tuningData = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("jsonl"), ...fileOptions }),
  z.strictObject({ type: z.literal("json"), ...fileOptions }),
  z.strictObject({ type: z.literal("parquet"), ...fileOptions }),
  z.strictObject({
    type: z.literal("rows"),
    rows: z.array(z.record(z.string(), z.json())).min(1).describe("Rows written into the run file."),
    ...rowOptions,
  }),
]);

/** A data choice with all defaults filled in. */
export type TuningData = z.output<typeof tuningData>;

/** All rows with where they stand. `key` is where the choice stands in the run file. */
export async function loadRows(data: TuningData, key: string): Promise<readonly PlacedRow[]> {
  if (data.type === "rows") return data.rows.map((row, index) => ({ row, file: key, index }));
  for (const path of [data.path].flat()) {
    if (existsSync(path)) continue;
    const looked = resolve(path);
    throw new RerollError(
      "FILE_NOT_FOUND",
      `${key}.path names ${JSON.stringify(path)}, and ${looked} does not exist. Paths count from where the command is run.`,
      { key, path: looked },
    );
  }
  const rows: PlacedRow[] = [];
  for await (const row of readRows(data.type, await listDataFiles(data.type, data.path), data.maxBytes)) rows.push(row);
  return rows;
}
