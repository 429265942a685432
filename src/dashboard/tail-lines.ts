/**
 * The lines of a growing file, each with its position.
 *
 * In: a path and the byte to go on from. Out: whole lines, a slice of the file at a time, so that a file of any size
 * takes little memory. A line that has no end yet is not returned. A line longer than `MAX_LINE_BYTES` is passed over
 * and counted.
 */
import type { FileHandle } from "node:fs/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { openPlainFile } from "./open-plain-file.ts";

/** Longer than any trajectory that a page could show. */
export const MAX_LINE_BYTES = 32 << 20;
const SLICE_BYTES = 1 << 20;

/** A line, without its end. */
export interface Line {
  readonly text: string;
  readonly start: number;
  readonly numBytes: number;
}

/** A slice of lines, and the byte after the last of them. */
interface LineSlice {
  readonly lines: readonly Line[];
  readonly nextByte: number;
  /** Lines that were passed over. */
  readonly numTooLong: number;
}

/** Slices from a byte to the current end. A missing file has none. */
export async function* tailLines(path: string, fromByte: number): AsyncGenerator<LineSlice> {
  const file = await openPlainFile(path);
  if (file === undefined) return;
  try {
    yield* slicesOf(file, fromByte);
  } finally {
    await file.close();
  }
}

async function* slicesOf(file: FileHandle, fromByte: number): AsyncGenerator<LineSlice> {
  const bytes = Buffer.allocUnsafe(SLICE_BYTES);
  let rest: Buffer[] = [];
  let restBytes = 0;
  let isPassing = false;
  for (let position = fromByte; ; ) {
    const { bytesRead } = await file.read(bytes, 0, SLICE_BYTES, position);
    if (bytesRead === 0) return;
    const lines: Line[] = [];
    let numTooLong = 0;
    let from = 0;
    for (let end = bytes.indexOf(10); end !== -1 && end < bytesRead; end = bytes.indexOf(10, from)) {
      const numBytes = restBytes + end - from;
      if (isPassing || numBytes > MAX_LINE_BYTES) numTooLong++;
      else {
        const text = Buffer.concat([...rest, bytes.subarray(from, end)]).toString("utf8");
        lines.push({ text, start: position + end - numBytes, numBytes });
      }
      rest = [];
      restBytes = 0;
      isPassing = false;
      from = end + 1;
    }
    restBytes += bytesRead - from;
    if (restBytes > MAX_LINE_BYTES) isPassing = true;
    if (isPassing) rest = [];
    else rest.push(Buffer.from(bytes.subarray(from, bytesRead)));
    position += bytesRead;
    if (lines.length > 0 || numTooLong > 0) yield { lines, nextByte: position - restBytes, numTooLong };
  }
}

/** Reads one line whose position is known; undefined if it is no longer there. */
export async function readLineAt(path: string, start: number, numBytes: number): Promise<string | undefined> {
  if (numBytes > MAX_LINE_BYTES) {
    throw new RerollError(
      "FILE_TOO_LARGE",
      `A line of ${numBytes} bytes is too long to be shown. At most ${MAX_LINE_BYTES} are.`,
      { path, numBytes },
    );
  }
  const file = await openPlainFile(path);
  if (file === undefined) return undefined;
  try {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(numBytes), 0, numBytes, start);
    return bytesRead < numBytes ? undefined : buffer.toString("utf8");
  } finally {
    await file.close();
  }
}
