/**
 * The thread that decodes one Parquet file: first the bytes that it unpacks to, then a slice of rows for each `next`, then the end.
 *
 * A piece that is decoded at once is a few thousand rows where the file has an index of its pages; where it has none, as those of
 * pyarrow by default, it is one row group. Values become JSON: whole numbers of 64 bits are numbers, or text where a number cannot
 * hold them; dates are ISO text; bytes are base64; not-a-number, which pandas writes for a missing value, is null.
 */
import { parentPort, workerData } from "node:worker_threads";
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet";
import { compressors } from "hyparquet-compressors";
import { invariant } from "../errors/reroll-error.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { DataRow } from "./data-row.ts";
import type { ParquetReply, ParquetSource } from "./read-parquet.ts";

/** Enough to cost nothing, few enough for the other side to take in about a millisecond. */
const ROWS_PER_SLICE = 256;

/** Rows that are decoded at once from a group with an index of its pages. Fewer would decode pages twice. */
const INDEXED_ROWS = 8192;

const port = parentPort;
invariant(port !== null, "parquet-worker runs as a worker thread");
const send = (reply: ParquetReply) => port.postMessage(reply);
const { path } = workerData as ParquetSource;
const replies = readFile(path);
port.on("message", sendNext);
await sendNext();

async function sendNext(): Promise<void> {
  try {
    const { value, done } = await replies.next();
    send(done === true ? { kind: "end" } : value);
  } catch (error) {
    send({ kind: "error", reason: error instanceof Error ? error.message : String(error) });
  }
}

async function* readFile(path: string): AsyncGenerator<ParquetReply> {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  const columns = metadata.row_groups.flatMap((group) => group.columns);
  const numBytes = columns.reduce((sum, { meta_data }) => sum + Number(meta_data?.total_uncompressed_size ?? 0), 0);
  const numRows = metadata.row_groups.reduce((sum, group) => sum + Number(group.num_rows), 0);
  if (numRows !== Number(metadata.num_rows))
    throw new Error(`it says ${metadata.num_rows} rows, and its row groups say ${numRows}`);
  yield { kind: "opened", numBytes };
  let groupStart = 0;
  for (const group of metadata.row_groups) {
    const groupEnd = groupStart + Number(group.num_rows);
    const hasIndex = group.columns.every((column) => column.offset_index_offset !== undefined);
    const step = hasIndex ? INDEXED_ROWS : groupEnd - groupStart;
    for (let rowStart = groupStart; rowStart < groupEnd; rowStart += step) {
      const rowEnd = Math.min(rowStart + step, groupEnd);
      const range = { file, metadata, rowStart, rowEnd, compressors, useOffsetIndex: hasIndex };
      const rows = await parquetReadObjects(range);
      if (rows.length !== rowEnd - rowStart)
        throw new Error(`it says ${rowEnd - rowStart} rows and has ${rows.length}`);
      for (let i = 0; i < rows.length; i += ROWS_PER_SLICE)
        yield { kind: "rows", rows: rows.slice(i, i + ROWS_PER_SLICE).map(toRow) };
    }
    groupStart = groupEnd;
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
