/**
 * The text of a file, piece by piece. Files that end in `.gz` are unpacked.
 *
 * A piece is a read of 64 KiB, so the event loop turns in between. Bytes that are not UTF-8, and packed files that are cut off,
 * are errors; a byte order mark is left out.
 */
import { createReadStream } from "node:fs";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { RerollError } from "../errors/reroll-error.ts";
import type { ByteBudget } from "./byte-budget.ts";

/** Yields the text of a file in order. Every piece counts against the budget, unpacked. */
export async function* readText(file: string, budget: ByteBudget): AsyncGenerator<string> {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  let bytesRead = 0;
  try {
    for await (const bytes of openBytes(file) as AsyncIterable<Uint8Array>) {
      budget.spend(bytes.length, file);
      bytesRead += bytes.length;
      yield decoder.decode(bytes, { stream: true });
    }
    yield decoder.decode();
  } catch (cause) {
    if (cause instanceof RerollError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RerollError(
      "DATA_UNREADABLE",
      `${file} cannot be read as UTF-8 text, after about ${bytesRead} bytes: ${reason}. Check the path, and that the file is whole.`,
      { file, bytesRead },
      { cause },
    );
  }
}

function openBytes(file: string): Readable {
  const bytes = createReadStream(file);
  // The pipeline hands an error of either stream to the reader of the last one; the callback has nothing to add.
  return file.endsWith(".gz") ? pipeline(bytes, createGunzip(), () => {}) : bytes;
}
