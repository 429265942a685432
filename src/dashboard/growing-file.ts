/**
 * A file of JSON lines that is read further whenever it has grown.
 *
 * In: a path that was checked. Out: each new line once, in order. A file that was replaced or cut, as resuming a run does, is read
 * again from its start, after `onReset`. Two readings at once share one.
 */
import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { type Line, tailLines } from "./tail-lines.ts";

/** Receiver of the lines. */
interface LineTaker {
  take(json: unknown, line: Line): void;
  /** The file has been replaced: forget everything taken so far. */
  onReset(): void;
}

/** A file, and how far it has been read. */
export class GrowingFile {
  readonly #path: string;
  readonly #taker: LineTaker;
  #identity = "";
  #reading: Promise<void> | undefined;
  nextByte = 0;
  /** Number of lines that were too long to be read. */
  numTooLong = 0;

  constructor(path: string, taker: LineTaker) {
    this.#path = path;
    this.#taker = taker;
  }

  /** Reads up to the current end. Lets other requests run between two slices. */
  update(): Promise<void> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #read(): Promise<void> {
    const found = await stat(this.#path).catch(() => undefined);
    const identity = found === undefined ? "" : identityOf(found);
    if (identity !== this.#identity || (found?.size ?? 0) < this.nextByte) {
      if (this.nextByte > 0) this.#taker.onReset();
      this.nextByte = 0;
      this.numTooLong = 0;
      this.#identity = identity;
    }
    if ((found?.size ?? 0) === this.nextByte) return;
    for await (const { lines, nextByte, numTooLong } of tailLines(this.#path, this.nextByte)) {
      for (const line of lines) {
        const json = parse(line.text);
        if (json !== undefined) this.#taker.take(json, line);
      }
      this.nextByte = nextByte;
      this.numTooLong += numTooLong;
      await setImmediate();
    }
  }
}

/**
 * A new file can get the inode of one that was just deleted, so the creation time counts too. Systems that keep none
 * report the time of the last change instead, which says nothing.
 */
function identityOf({ ino, birthtimeMs, ctimeMs }: Stats): string {
  return birthtimeMs === ctimeMs ? String(ino) : `${ino} ${birthtimeMs}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A line in the middle of the file was torn by a run that was killed and resumed.
    return undefined;
  }
}
