/** Rows of files: one file, a list of them, or a folder, in a format that the caller names. */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { type ByteBudget, createByteBudget } from "./byte-budget.ts";
import type { DataRow, PlacedRow } from "./data-row.ts";
import { readJsonArray } from "./read-json-array.ts";
import { readJsonl } from "./read-jsonl.ts";
import { readParquet } from "./read-parquet.ts";

interface DataFormat {
  readonly read: (file: string, budget: ByteBudget) => AsyncIterable<DataRow>;
  /** What files of a folder must end in to be read. A file that is named itself may end in anything. */
  readonly endings: readonly string[];
}

/** The formats by the name that run files use. */
const dataFormats = {
  jsonl: { read: readJsonl, endings: [".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz"] },
  json: { read: readJsonArray, endings: [".json", ".json.gz"] },
  parquet: { read: readParquet, endings: [".parquet"] },
} as const satisfies Record<string, DataFormat>;

/** A name of `dataFormats`. */
export type DataFormatName = keyof typeof dataFormats;

/** The format of a file by its ending. */
export function formatOfFile(path: string): DataFormatName | undefined {
  const names = Object.keys(dataFormats) as DataFormatName[];
  return names.find((name) => dataFormats[name].endings.some((ending) => path.endsWith(ending)));
}

/** The files that a path or a list of paths stands for. Files of a folder come in the order of their names. */
export async function listDataFiles(format: DataFormatName, paths: string | readonly string[]): Promise<string[]> {
  const lists = [paths].flat().map(async (path) => {
    const found = await stat(path).catch((cause: unknown) => {
      throw new RerollError("DATA_UNREADABLE", `${path} cannot be read. Check the path.`, { path }, { cause });
    });
    return found.isDirectory() ? listFolder(format, path) : [path];
  });
  return (await Promise.all(lists)).flat();
}

/** All rows, file by file. All files together may hold `maxBytes`, unpacked; by default 1 GiB. */
export async function* readRows(
  format: DataFormatName,
  files: readonly string[],
  maxBytes?: number,
): AsyncGenerator<PlacedRow> {
  // Fails at once where the files are too large as they lie there, and not after reading what fits.
  const packed = createByteBudget(maxBytes);
  for (const file of files) packed.spend((await stat(file)).size, file);
  const budget = createByteBudget(maxBytes);
  for (const file of files) {
    let index = 0;
    for await (const row of dataFormats[format].read(file, budget)) yield { row, file, index: index++ };
  }
}

async function listFolder(format: DataFormatName, folder: string): Promise<string[]> {
  const { endings } = dataFormats[format];
  const names = (await readdir(folder)).filter((name) => endings.some((ending) => name.endsWith(ending)));
  if (names.length > 0) return names.sort().map((name) => join(folder, name));
  throw new RerollError(
    "DATA_EMPTY",
    `${folder} has no files of type ${format}. Their names must end in: ${endings.join(", ")}.`,
    { folder, format },
  );
}
