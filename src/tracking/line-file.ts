/**
 * A text file that grows by whole lines.
 *
 * In: lines, at any rate. Out: the file, written in the background every `flushMs`, when much has gathered, and on
 * `close`. Lines stay in order, and a crash can tear the last one only. If the file cannot be written, the next call
 * throws: what a run found out must not be lost in silence.
 */
import { appendFile } from "node:fs/promises";
import { RerollError } from "../errors/reroll-error.ts";
import { diskFull, isDiskFull } from "../files/replace-file.ts";

/** Characters after which lines are written without waiting for the clock. */
const MANY_CHARACTERS = 1 << 18;

/** One writer of one file. Must be closed. */
export class LineFile {
  readonly #path: string;
  readonly #timer: NodeJS.Timeout;
  #lines: string[] = [];
  #numCharacters = 0;
  #writing: Promise<void> = Promise.resolve();
  #error: RerollError | null = null;

  constructor(path: string, flushMs = 1000) {
    this.#path = path;
    this.#timer = setInterval(() => void this.#write(), flushMs);
    // Whoever owns the file closes it; waiting for lines must not keep a process alive.
    this.#timer.unref();
  }

  /** Adds a line; it must not hold a line break. */
  append(line: string): void {
    this.#throwError();
    this.#lines.push(line);
    this.#numCharacters += line.length;
    if (this.#numCharacters >= MANY_CHARACTERS) void this.#write();
  }

  /** Resolves when every line so far is in the file. */
  async flush(): Promise<void> {
    await this.#write();
    this.#throwError();
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }

  #write(): Promise<void> {
    if (this.#lines.length === 0 || this.#error !== null) return this.#writing;
    const text = `${this.#lines.join("\n")}\n`;
    this.#lines = [];
    this.#numCharacters = 0;
    this.#writing = this.#writing
      .then(() => appendFile(this.#path, text))
      .catch((cause: Error) => {
        this.#error ??= isDiskFull(cause) ? diskFull(this.#path, cause) : unwritable(this.#path, cause);
      });
    return this.#writing;
  }

  #throwError(): void {
    if (this.#error !== null) throw this.#error;
  }
}

function unwritable(path: string, cause: Error): RerollError {
  const message = `Cannot write ${path}: ${cause.message}. Correct its permissions, then resume the run.`;
  return new RerollError("RUN_FOLDER_WRITE", message, { path }, { cause });
}
