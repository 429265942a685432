/**
 * Files with one JSON value per line, read while someone else may be writing them.
 *
 * A line without its end is not there yet; a line that is no JSON is skipped; a file that is not there is empty.
 */
import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { replacePath } from "../files/replace-file.ts";

/** What a file held, and where to go on reading when it has grown. */
export interface JsonLines<Value> {
  readonly values: readonly Value[];
  readonly nextByte: number;
}

/** Reads the whole lines from a byte on. `parse` says undefined for what it does not know. */
export async function readJsonLines<Value>(
  path: string,
  parse: (json: unknown) => Value | undefined,
  fromByte = 0,
): Promise<JsonLines<Value>> {
  const values: Value[] = [];
  let nextByte = fromByte;
  for await (const { text, numBytes } of wholeLines(path, fromByte)) {
    nextByte += numBytes;
    const value = parseLine(text, parse);
    if (value !== undefined) values.push(value);
  }
  return { values, nextByte };
}

/** Rewrites a file with the lines that are to be kept. What is torn or no JSON goes; the file changes all at once. */
export async function keepJsonLines(path: string, isKept: (json: unknown) => boolean): Promise<void> {
  await replacePath(path, async (draft) => {
    const file = await open(draft, "w");
    try {
      for await (const { text } of wholeLines(path, 0)) {
        const json = parseLine(text, (value) => value);
        if (json !== undefined && isKept(json)) await file.appendFile(`${text}\n`);
      }
    } finally {
      await file.close();
    }
  });
}

async function* wholeLines(path: string, start: number): AsyncGenerator<{ text: string; numBytes: number }> {
  let rest: Buffer = Buffer.alloc(0);
  try {
    for await (const chunk of createReadStream(path, { start, highWaterMark: 1 << 20 })) {
      const bytes = Buffer.concat([rest, chunk as Buffer]);
      let from = 0;
      for (let end = bytes.indexOf(10); end !== -1; end = bytes.indexOf(10, from)) {
        yield { text: bytes.toString("utf8", from, end), numBytes: end + 1 - from };
        from = end + 1;
      }
      rest = bytes.subarray(from);
    }
  } catch (error) {
    // Runs are moved and deleted while they are being looked at.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

function parseLine<Value>(text: string, parse: (json: unknown) => Value | undefined): Value | undefined {
  try {
    return parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
