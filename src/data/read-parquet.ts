/**
 * Rows of a Parquet file, in all compressions and with nested columns.
 *
 * The event loop turns between pieces. A piece is a few thousand rows where the file has an index of its pages; where it has
 * none, as those of pyarrow by default, it is one row group, and one with 50 MB of text takes a quarter of a second. Values
 * become JSON: whole numbers of 64 bits are numbers, or text where a number cannot hold them; dates are ISO text; bytes are
 * base64; not-a-number, which pandas writes for a missing value, is null.
 */
import { setImmediate } from "node:timers/promises";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { DataRow } from "./data-row.ts";

/** Enough to cost nothing, few enough to pass in about a millisecond. */
const ROWS_PER_TURN = 256;

/** Rows that are decoded at once from a group with an index of its pages. Fewer would decode pages twice. */
const INDEXED_ROWS = 8192;

/** Yields the rows of a file in order. The budget is charged with what the file says it unpacks to, before reading. */
export async function* readParquet(path: string, budget: ByteBudget): AsyncGenerator<DataRow> {
  const { file, metadata } = await decoding(path, async () => {
    const file = await asyncBufferFromFile(path);
    return { file, metadata: await parquetMetadataAsync(file) };
  });
  for (const { columns } of metadata.row_groups) {
    for (const { meta_data } of columns) budget.spend(Number(meta_data?.total_uncompressed_size ?? 0), path);
  }
  let groupStart = 0;
  for (const group of metadata.row_groups) {
    const groupEnd = groupStart + Number(group.num_rows);
    const hasIndex = group.columns.every((column) => column.offset_index_offset !== undefined);
    const step = hasIndex ? INDEXED_ROWS : groupEnd - groupStart;
    for (let rowStart = groupStart; rowStart < groupEnd; rowStart += step) {
      const rowEnd = Math.min(rowStart + step, groupEnd);
      const range = { file, metadata, rowStart, rowEnd, compressors, useOffsetIndex: hasIndex };
      const rows = await decoding(path, () => parquetReadObjects(range));
      for (let i = 0; i < rows.length; i++) {
        if (i % ROWS_PER_TURN === 0) await setImmediate();
        yield toRow(rows[i]!);
      }
    }
    groupStart = groupEnd;
  }
}

async function decoding<Result>(path: string, decode: () => Promise<Result>): Promise<Result> {
  try {
    return await decode();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RerollError(
      "DATA_UNREADABLE",
      `${path} cannot be read as Parquet: ${reason}. Check the path, and that the file is whole.`,
      { path },
      { cause },
    );
  }
}

function toRow(columns: Readonly<Record<string, unknown>>): DataRow {
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, toJson(value)]));
}

function toJson(value: unknown): JsonValue {
  if (value === null || value === undefined) return null;
  if (typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : null;
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(toJson);
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as ArrayLike<number | bigint>, toJson);
  return toRow(value as Readonly<Record<string, unknown>>);
}
