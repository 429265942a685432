/**
 * Connections to a server over HTTP, which stay open between requests.
 *
 * There are never more than requests under way at the same time, and one that nobody has used for four seconds is closed. Built on node:http because
 * global fetch gives up after five minutes without a header, and because it takes a connection back a turn of the event loop after the answer: callers
 * that ask again at once open up to twice as many. Waits for: a free connection where `maxConnections` are busy, and the server.
 */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";

interface ConnectionsOptions {
  readonly url: string;
  /** Requests beyond these wait. Default: none do. */
  readonly maxConnections?: number;
  /** Less than the five seconds after which servers close one. Default 4,000. */
  readonly idleMs?: number;
}

interface HttpRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** The longest silence of the server that is waited for. 0, the default: any. */
  readonly silenceMs?: number;
  readonly signal?: AbortSignal | undefined;
}

interface Exchange {
  readonly answer: Promise<IncomingMessage>;
  /** Resolves when the connection can take another request, or is closed. */
  readonly freed: Promise<void>;
}

export class HttpConnections {
  readonly #url: string;
  readonly #request: typeof httpRequest;
  readonly #agent: HttpAgent | HttpsAgent;
  /** Ends each request that has no answer yet. */
  readonly #unanswered = new Set<(reason: Error) => void>();

  constructor({ url, maxConnections = Infinity, idleMs = 4000 }: ConnectionsOptions) {
    this.#url = url;
    // The one that was used last is taken first, so that what a burst has opened falls idle.
    const options = {
      ...{ keepAlive: true, scheduling: "lifo" as const, timeout: idleMs },
      ...{ maxSockets: maxConnections, maxFreeSockets: Infinity },
    };
    const isSecure = url.startsWith("https:");
    this.#request = isSecure ? httpsRequest : httpRequest;
    this.#agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
  }

  /** Resolves with the head of the answer, whatever its status. Its body must be read or discarded. */
  send(request: HttpRequest): Promise<IncomingMessage> {
    return this.#start(request).answer;
  }

  /** Resolves with all of the answer, whatever its status, once its connection is free: it may come before all of the question was sent. */
  async exchange(request: HttpRequest): Promise<{ readonly status: number; readonly text: string }> {
    const { answer, freed } = this.#start(request);
    const response = await answer;
    let text = "";
    for await (const chunk of response.setEncoding("utf8")) text += chunk;
    await freed;
    return { status: response.statusCode ?? 0, text };
  }

  #start({ method, path, headers, body, silenceMs = 0, signal }: HttpRequest): Exchange {
    let free = () => {};
    const freed = new Promise<void>((resolve) => {
      free = resolve;
    });
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      const options = { method, headers, agent: this.#agent, timeout: silenceMs, ...(signal && { signal }) };
      const sent = this.#request(this.#url + path, options, resolve);
      // One that still waits for a connection hears of nothing by itself, and must not be sent later.
      const end = (reason: Error) => {
        sent.destroy(reason);
        reject(reason);
      };
      const abort = () => end(new Error("The operation was aborted"));
      this.#unanswered.add(end);
      signal?.addEventListener("abort", abort, { once: true });
      sent.once("close", () => {
        free();
        this.#unanswered.delete(end);
        signal?.removeEventListener("abort", abort);
      });
      sent.on("timeout", () => end(new Error(`no answer for ${silenceMs} ms`)));
      sent.on("error", reject);
      sent.end(body);
    });
    return { answer, freed };
  }

  /** Closes all connections; what still runs on them breaks, and what waits for one is not sent. */
  close(): void {
    for (const end of this.#unanswered) end(new Error("the connections were closed"));
    this.#agent.destroy();
  }
}
