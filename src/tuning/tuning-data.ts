/** The data of tuning runs: which files, and which columns of their rows. */
import { z } from "zod";
import { dataFiles, datasetFiles, datasetType } from "../data/data-options.ts";
import type { PlacedRow } from "../data/data-row.ts";
import { openDataset } from "../data/open-dataset.ts";
import { listDataFiles, readRows } from "../data/read-rows.ts";
import { expectData } from "../run/check-files.ts";

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
  z.strictObject({
    type: datasetType,
    ...datasetFiles,
    split: z.string().min(1).default("train").describe("Split to take, such as train or test."),
    ...rowOptions,
  }),
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
  expectData(data.path, key);
  const { format, files } =
    data.type === "dataset"
      ? await openDataset(data.path, data)
      : { format: data.type, files: await listDataFiles(data.type, data.path) };
  const rows: PlacedRow[] = [];
  for await (const row of readRows(format, files, data.maxBytes)) rows.push(row);
  return rows;
}
