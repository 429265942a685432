import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { threadId } from "node:worker_threads";

/**
 * Writes a file so that `path` is either what it was or complete: `fill` appends to a temporary file in the same folder,
 * which is flushed to disk and renamed over `path`. On an error the temporary file is removed and the error goes on.
 */
export function replaceFile(path: string, fill: (append: (bytes: Uint8Array) => void) => void): void {
  const temporary = `${path}.${process.pid}-${threadId}.partial`;
  const descriptor = openSync(temporary, "w");
  let isComplete = false;
  try {
    try {
      fill((bytes) => writeAll(descriptor, bytes));
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, path);
    isComplete = true;
  } finally {
    if (!isComplete) rmSync(temporary, { force: true });
  }
}

function writeAll(descriptor: number, bytes: Uint8Array): void {
  let written = 0;
  while (written < bytes.byteLength) {
    written += writeSync(descriptor, bytes, written, Math.min(bytes.byteLength - written, maxWriteBytes));
  }
}

/** One write call takes at most 2 GiB - 1 in Node; 1 GiB keeps clear of that. */
const maxWriteBytes = 2 ** 30;
