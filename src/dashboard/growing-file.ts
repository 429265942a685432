/**
 * A file of JSON lines that is read on whenever it has grown.
 *
 * In: a path that was checked. Out: each new line once, in order. A file that was replaced or cut, as resuming a run does, is read
 * again from its start, after `onReset`. Two readings at once share one.
 */
import type { Stats } from "node:fs";
import { stat } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { type Line, tailLines } from "./tail-lines.ts";

/** The receiver of the lines. */
interface LineTaker {
  take(json: unknown, line: Line): void;
  /** Everything taken so far is not true any more. */
  onReset(): void;
}

/** Position of the reader in the file. */
export class GrowingFile {
  readonly #path: string;
  readonly #taker: LineTaker;
  #identity = "";
  #reading: Promise<void> | undefined;
  nextByte = 0;
  /** Lines too long to be read. */
  numTooLong = 0;

  constructor(path: string, taker: LineTaker) {
    this.#path = path;
    this.#taker = taker;
  }

  /** Reads to what is the end now. Gives way to other requests between two slices. */
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
 * A new file can get the number of the one that was just deleted, so the time of its birth counts too. Where the system keeps
 * none, it gives the time of the last change instead, which says nothing.
 */
function identityOf({ ino, birthtimeMs, ctimeMs }: Stats): string {
  return birthtimeMs === ctimeMs ? String(ino) : `${ino} ${birthtimeMs}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // A line that was torn in the middle of the file, by a run that was killed and resumed.
    return undefined;
  }
}
