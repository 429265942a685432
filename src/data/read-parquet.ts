/**
 * Rows of a Parquet file, in all compressions and with nested columns.
 *
 * A thread decodes (parquet-worker.ts), so that the event loop turns all the while, and so that a damaged file cannot hold up the
 * run: one flipped bit may tell the decoder to count to four billion. Each slice of rows is waited for under a time limit.
 */
import { once } from "node:events";
import type { Worker } from "node:worker_threads";
import { RerollError } from "../errors/reroll-error.ts";
import { startWorker } from "../workers/start-worker.ts";
import type { ByteBudget } from "./byte-budget.ts";
import type { DataRow } from "./data-row.ts";

/** What the thread is given. */
export interface ParquetSource {
  readonly path: string;
}

/** What the thread says, once at the start and once for each time it is asked. */
export type ParquetReply =
  | { readonly kind: "opened" /** Unpacked, as the file says. */; readonly numBytes: number }
  | { readonly kind: "rows"; readonly rows: readonly DataRow[] }
  | { readonly kind: "end" }
  | { readonly kind: "error"; readonly reason: string };

/** A row group with a gigabyte of text takes a few seconds. */
const TIMEOUT_MS = 60_000;

/** Yields the rows of a file in order. The budget is charged with what the file says it unpacks to, before reading. */
export async function* readParquet(path: string, budget: ByteBudget, timeoutMs = TIMEOUT_MS): AsyncGenerator<DataRow> {
  const source: ParquetSource = { path };
  const worker = startWorker(new URL("parquet-worker", import.meta.url), source);
  try {
    for (;;) {
      const reply = await nextReply(worker, path, timeoutMs);
      if (reply.kind === "end") return;
      if (reply.kind === "error") throw unreadable(path, reply.reason);
      if (reply.kind === "opened") budget.spend(reply.numBytes, path);
      else yield* reply.rows;
      worker.postMessage("next");
    }
  } finally {
    await worker.terminate();
  }
}

async function nextReply(worker: Worker, path: string, timeoutMs: number): Promise<ParquetReply> {
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(), timeoutMs);
  try {
    const [reply] = (await once(worker, "message", { signal: stop.signal })) as [ParquetReply];
    return reply;
  } catch (cause) {
    if (stop.signal.aborted) throw unreadable(path, `nothing came within ${timeoutMs} ms`);
    // Such as a thread that ran out of memory.
    throw unreadable(path, cause instanceof Error ? cause.message : String(cause), cause);
  } finally {
    clearTimeout(timer);
  }
}

function unreadable(path: string, reason: string, cause?: unknown): RerollError {
  return new RerollError(
    "DATA_UNREADABLE",
    `${path} cannot be read as Parquet: ${reason}. Check the path, and that the file is whole.`,
    { path },
    { cause },
  );
}
