/**
 * Server-sent events.
 *
 * The head is written with the first event, so that a request which fails before that still gets a status. Waits for:
 * the client to read what was sent, as long as it reads anything within `stallMs`; a client that is gone takes
 * everything and reads nothing.
 */
import type { ServerResponse } from "node:http";
import type { StreamEvent } from "./reply-format.ts";

/** The answer to one request, in events. */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #onOpen: () => void;
  readonly #stallMs: number;
  #isOpen = false;

  /**
   * @param onOpen called once, before the head is written
   * @param stallMs a client that reads nothing for this long is taken for gone; it would hold its place for ever
   */
  constructor(
    response: ServerResponse,
    headers: Readonly<Record<string, string>>,
    onOpen: () => void,
    stallMs: number,
  ) {
    this.#response = response;
    this.#headers = headers;
    this.#onOpen = onOpen;
    this.#stallMs = stallMs;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  async send(data: StreamEvent): Promise<void> {
    this.#open();
    if (this.#response.destroyed) return;
    const isTaken = this.#response.write(eventText(data));
    if (!isTaken) await drained(this.#response, this.#stallMs);
  }

  end(): void {
    this.#open();
    this.#response.end();
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#onOpen();
    this.#response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
      ...this.#headers,
    });
  }
}

function eventText(data: StreamEvent): string {
  if (data === "[DONE]") return `data: ${data}\n\n`;
  const name = "type" in data && typeof data.type === "string" ? `event: ${data.type}\n` : "";
  return `${name}data: ${JSON.stringify(data)}\n\n`;
}

async function drained(response: ServerResponse, stallMs: number): Promise<void> {
  if (response.destroyed) return;
  // Node destroys a connection on which nothing moves for this long.
  response.setTimeout(stallMs);
  await new Promise<void>((resolve) => {
    const done = () => {
      response.off("drain", done);
      response.off("close", done);
      response.setTimeout(0);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
