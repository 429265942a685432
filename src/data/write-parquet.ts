/**
 * Rows as a Parquet file that other tools read, for trajectories and prompts alike.
 *
 * Columns of text, numbers and truth values keep their kind; all others hold JSON text, which `readParquet` parses again.
 * The file appears under its name only when it is whole.
 */
import { parquetWriteFile } from "hyparquet-writer";
import { RerollError } from "../errors/reroll-error.ts";
import { replacePath } from "../files/replace-file.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { DataRow } from "./data-row.ts";

/** Writes all rows. A row without a column of the others has null there. */
export async function writeParquet(file: string, rows: readonly DataRow[]): Promise<void> {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  if (names.length === 0) throw new RerollError("INVALID_ARGUMENT", `${file} needs at least one row with a column.`);
  const columnData = names.map((name) =>
    toColumn(
      name,
      rows.map((row) => row[name] ?? null),
    ),
  );
  await replacePath(file, (draft) => parquetWriteFile({ filename: draft, columnData }));
}

function toColumn(name: string, data: JsonValue[]) {
  const kinds = new Set(data.filter((value) => value !== null).map((value) => typeof value));
  const [kind] = kinds.size === 1 ? kinds : [];
  if (kind === "string") return { name, data, type: "STRING" as const };
  if (kind === "boolean") return { name, data, type: "BOOLEAN" as const };
  if (kind === "number") return { name, data, type: "DOUBLE" as const };
  return { name, data, type: "JSON" as const };
}
