/** A data set on disk, a file or a folder, as the files of one split. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import { chooseDatasetFiles, type DatasetPart } from "./dataset-files.ts";
import { type DataFormatName, formatOfFile } from "./read-rows.ts";

interface OpenedDataset {
  readonly format: DataFormatName;
  readonly files: readonly string[];
}

/** Finds the files of a split. A single file is read as a whole, and its ending says how. */
export async function openDataset(path: string, part: DatasetPart): Promise<OpenedDataset> {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return singleFile(path);
  const entries = await readdir(path, { recursive: true, withFileTypes: true });
  const names = entries
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(path, join(entry.parentPath, entry.name)).split(sep).join("/"));
  const readme = join(path, "README.md");
  const { format, files } = chooseDatasetFiles(
    path,
    names,
    existsSync(readme) ? readFileSync(readme, "utf8") : null,
    part,
  );
  return { format, files: files.map((file) => join(path, file)) };
}

function singleFile(path: string): OpenedDataset {
  const format = formatOfFile(path);
  if (format !== undefined) return { format, files: [path] };
  throw new RerollError(
    "DATA_UNREADABLE",
    `${path} does not say by its ending what it holds. Set type to jsonl, json or parquet.`,
    { path },
  );
}
