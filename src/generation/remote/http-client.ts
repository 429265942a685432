/**
 * HTTP for remote engines, over connections that stay open.
 *
 * Waits for: a free connection, and the server; no byte for `timeoutMs` counts as a broken connection. A connection that
 * breaks in any way is a REMOTE_FAULT, and who asked may try again.
 */
import type { IncomingMessage } from "node:http";
import { redactText } from "../../errors/redact-text.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { splitAddress } from "../../errors/secret.ts";
import { HttpConnections } from "../../services/http-connections.ts";
import { jsonHeaders } from "../../services/json-headers.ts";
import { remoteFault } from "./remote-fault.ts";

interface HttpClientOptions {
  /** Such as http://127.0.0.1:8000; paths are added to it. */
  readonly url: string;
  readonly apiKey?: string;
  /** The longest silence of the server that is waited for. */
  readonly timeoutMs: number;
  readonly maxConnections: number;
}

interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: object;
  readonly signal?: AbortSignal;
}

export class HttpClient {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #connections: HttpConnections;
  readonly #timeoutMs: number;

  constructor({ url, apiKey, timeoutMs, maxConnections }: HttpClientOptions) {
    if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : "")) {
      throw new RerollError(
        "INVALID_OPTION",
        `url must be like http://127.0.0.1:8000: got ${JSON.stringify(redactText(url))}.`,
      );
    }
    const address = splitAddress(url);
    this.url = address.url.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.#timeoutMs = timeoutMs;
    this.#headers = jsonHeaders(address, apiKey);
    this.#connections = new HttpConnections({ url: this.url, maxConnections });
  }

  /** Resolves with the head of the answer, whatever its status. Its body must be read or discarded. */
  async send({ method, path, body, signal }: HttpRequest): Promise<HttpResponse> {
    const request = { method, path, headers: this.#headers, silenceMs: this.#timeoutMs, signal };
    const message = await this.#connections
      .send({ ...request, ...(body && { body: JSON.stringify(body) }) })
      .catch((cause: Error) =>
        Promise.reject(remoteFault(`${this.url} cannot be reached: ${cause.message}`, { cause })),
      );
    return new HttpResponse(this.url + path, message);
  }

  /** Closes all connections; what still runs on them breaks. */
  close(): void {
    this.#connections.close();
  }
}

export class HttpResponse {
  readonly url: string;
  readonly status: number;
  readonly #message: IncomingMessage;

  constructor(url: string, message: IncomingMessage) {
    this.url = url;
    this.status = message.statusCode ?? 0;
    this.#message = message;
  }

  header(name: string): string | undefined {
    const value = this.#message.headers[name];
    return Array.isArray(value) ? value[0] : value;
  }

  /** The body as it comes. */
  async *chunks(): AsyncGenerator<string> {
    this.#message.setEncoding("utf8");
    try {
      for await (const chunk of this.#message) yield chunk;
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw remoteFault(`${this.url} broke off its answer: ${reason}`, { cause });
    }
  }

  async text(): Promise<string> {
    let text = "";
    for await (const chunk of this.chunks()) text += chunk;
    return text;
  }

  async json(): Promise<unknown> {
    return parseJson(await this.text(), this.url);
  }

  discard(): void {
    this.#message.resume();
  }
}

/** Throws a REMOTE_FAULT for what is not JSON: an answer that was garbled on its way. */
export function parseJson(text: string, url: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw remoteFault(`${url} sent something that is not JSON: ${JSON.stringify(text.slice(0, 80))}`, { cause });
  }
}
