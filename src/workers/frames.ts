/**
 * Messages on a socket: six bytes that say how long each one is, then its bytes. One of no bytes is a sign of life.
 *
 * What arrives before somebody listens waits. A message longer than allowed ends the connection, so that a stranger cannot fill the memory.
 */
import type { Socket } from "node:net";

/** One end of a connection between two machines. */
export class Frames {
  readonly #socket: Socket;
  readonly #waiting: Buffer[] = [];
  #chunks: Buffer[] = [];
  #numBytes = 0;
  #hear: ((frame: Buffer) => void) | null = null;
  #onEnd: ((how: string) => void)[] = [];
  #end: string | null = null;
  #numSilentBeats = 0;
  #beat: NodeJS.Timeout | null = null;
  /** The longest message that may arrive. Raised once the other side is known. */
  maxBytes = 4096;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay();
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", (error) => this.cut(`broke the connection: ${error.message}`));
    socket.on("close", () => this.cut("closed the connection"));
  }

  get isOpen(): boolean {
    return this.#end === null;
  }

  send(bytes: Uint8Array): void {
    if (this.#end !== null) return;
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUIntBE(bytes.length, 0, HEADER_BYTES);
    this.#socket.cork();
    this.#socket.write(header);
    if (bytes.length > 0) this.#socket.write(bytes);
    this.#socket.uncork();
  }

  /** Calls with each message, in order. Another listener takes the place of the one before. */
  listen(hear: ((frame: Buffer) => void) | null): void {
    this.#hear = hear;
    while (this.#hear !== null && this.#waiting.length > 0) this.#hear(this.#waiting.shift()!);
  }

  /** Calls once with how the connection ended, a verb with what belongs to it; at once where it has. */
  onEnd(listen: (how: string) => void): void {
    if (this.#end === null) this.#onEnd.push(listen);
    else listen(this.#end);
  }

  /**
   * Gives signs of life from now on, and ends the connection when none come back. Beats are counted and not timed: a process that was
   * too busy to look has missed one beat, however long it was busy.
   */
  beat({ everyMs, maxSilentBeats }: Heartbeat): void {
    this.#beat = setInterval(() => {
      this.send(NOTHING);
      if (++this.#numSilentBeats > maxSilentBeats)
        this.cut(`gave no sign of life for ${(everyMs * maxSilentBeats) / 1000} seconds`);
    }, everyMs);
    this.#beat.unref();
  }

  /** Ends the connection after what was sent. */
  async close(): Promise<void> {
    if (this.#end !== null) return;
    await new Promise<void>((resolve) => {
      const limit = setTimeout(resolve, CLOSING_MS);
      this.#socket.end(() => {
        clearTimeout(limit);
        resolve();
      });
    });
    this.cut("was closed");
  }

  /** Ends the connection at once. */
  cut(how: string): void {
    if (this.#end !== null) return;
    this.#end = how;
    if (this.#beat !== null) clearInterval(this.#beat);
    this.#socket.destroy();
    for (const listen of this.#onEnd.splice(0)) listen(how);
  }

  #receive(chunk: Buffer): void {
    this.#numSilentBeats = 0;
    this.#chunks.push(chunk);
    this.#numBytes += chunk.length;
    while (this.#end === null && this.#numBytes >= HEADER_BYTES) {
      if (this.#chunks[0]!.length < HEADER_BYTES) this.#chunks = [Buffer.concat(this.#chunks)];
      const length = this.#chunks[0]!.readUIntBE(0, HEADER_BYTES);
      if (length > this.maxBytes) {
        this.cut(`sent a message of ${length} bytes where ${this.maxBytes} are allowed`);
        return;
      }
      if (this.#numBytes < HEADER_BYTES + length) return;
      const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
      const rest = bytes.subarray(HEADER_BYTES + length);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#numBytes = rest.length;
      if (length > 0) this.#give(bytes.subarray(HEADER_BYTES, HEADER_BYTES + length));
    }
  }

  #give(frame: Buffer): void {
    if (this.#hear === null) this.#waiting.push(frame);
    else this.#hear(frame);
  }
}

/** How often an end gives a sign of life, and after how many of its own without one from the other side it takes that for gone. */
export interface Heartbeat {
  readonly everyMs: number;
  readonly maxSilentBeats: number;
}

const HEADER_BYTES = 6;
const NOTHING = new Uint8Array(0);

/** The time that the last messages may take to leave. */
const CLOSING_MS = 5000;
