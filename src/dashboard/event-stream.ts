/** Server-sent events, written by hand: one connection to one page. */
import type { ServerResponse } from "node:http";

/**
 * A stream that is open until the page or the server goes away. A page that stops reading is disconnected before its
 * backlog fills the memory.
 */
export class EventStream {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse, headers: Readonly<Record<string, string>>) {
    this.#response = response;
    response.writeHead(200, {
      ...headers,
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    // How long the page waits before it connects again.
    response.write("retry: 1000\n\n");
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  /** `id` comes back as Last-Event-ID when the page connects again. */
  send(event: string, data: unknown, id?: number): void {
    this.#write(`${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** Sends a comment, to find out whether anyone is still there. */
  ping(): void {
    this.#write(": still here\n\n");
  }

  end(): void {
    this.#response.end();
  }

  #write(text: string): void {
    if (!this.isOpen) return;
    if (this.#response.writableLength > MAX_UNREAD_BYTES) this.#response.destroy();
    else this.#response.write(text);
  }
}

const MAX_UNREAD_BYTES = 1 << 20;
