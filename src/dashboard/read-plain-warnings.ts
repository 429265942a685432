/** The warnings of a run, from a plain file only. */
import { join } from "node:path";
import type { JsonLines } from "../tracking/json-lines.ts";
import { readWarnings } from "../tracking/read-run.ts";
import { runFiles, type WarningRecord } from "../tracking/run-record.ts";
import { openPlainFile } from "./open-plain-file.ts";

/** Reads warnings from a byte on; none if there is no file. */
export async function readPlainWarnings(folder: string, fromByte = 0): Promise<JsonLines<WarningRecord>> {
  const file = await openPlainFile(join(folder, runFiles.warnings));
  await file?.close();
  return file === undefined ? { values: [], nextByte: fromByte } : readWarnings(folder, fromByte);
}
