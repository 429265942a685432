/**
 * Calls to a service on another machine: JSON over HTTP, asked again where the way there was at fault.
 *
 * Every call must be one that may be asked twice: a reply that is lost on its way is asked for again. Waits for: the service, up to
 * `timeoutMs` per attempt; a signal ends it at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ErrorCode, isErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { splitAddress } from "../errors/secret.ts";
import { HttpConnections } from "./http-connections.ts";

interface ServiceOptions {
  readonly url: string;
  readonly apiKey?: string | undefined;
  /** How long one attempt may take. */
  readonly timeoutMs: number;
}

/** Waits before the second attempt and those after it: a service that starts again is there after a few seconds. */
const RETRY_MS = [100, 400, 1600, 3000, 3000];

/** Answers of a proxy, or of a service that is starting up. */
const RETRIED: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

export class ServiceClient {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #connections: HttpConnections;

  constructor({ url, apiKey, timeoutMs }: ServiceOptions) {
    const address = splitAddress(url);
    this.url = address.url.replace(/\/+$/, "");
    this.#timeoutMs = timeoutMs;
    this.#connections = new HttpConnections({ url: this.url });
    this.#headers = {
      "content-type": "application/json",
      ...address.headers,
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    };
  }

  /** Rejects with SERVICE_LOST where it does not answer, and with the error that the service tells otherwise. */
  async call(method: "GET" | "POST" | "DELETE", path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    for (let attempt = 0; ; attempt++) {
      signal?.throwIfAborted();
      const answer = await this.#attempt(method, path, body, signal);
      if (!("fault" in answer)) return answer.value;
      const delayMs = RETRY_MS[attempt];
      if (delayMs === undefined) throw lost(this.url, answer.fault, attempt + 1);
      await sleep(delayMs, undefined, signal && { signal });
    }
  }

  async #attempt(method: string, path: string, body: unknown, signal: AbortSignal | undefined) {
    // Taken back when the answer is there: AbortSignal.timeout would keep each of many calls in memory until its time is up.
    const attempt = new AbortController();
    const end = () => attempt.abort();
    const timer = setTimeout(end, this.#timeoutMs);
    signal?.addEventListener("abort", end, { once: true });
    try {
      const { status, text } = await this.#connections.exchange({
        ...{ method, path, headers: this.#headers, signal: attempt.signal },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      if (RETRIED.has(status)) return { fault: `it answered ${status}` };
      if (status < 200 || status > 299) throw toldError(this.url, status, text);
      return { value: text === "" ? undefined : (JSON.parse(text) as unknown) };
    } catch (cause) {
      if (cause instanceof RerollError) throw cause;
      signal?.throwIfAborted();
      if (attempt.signal.aborted) return { fault: `it did not answer within ${this.#timeoutMs} ms` };
      return { fault: cause instanceof Error ? cause.message : String(cause) };
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
    }
  }
}

/** Whether a service could not be reached, and not just refused something. */
export function isServiceLost(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && cause.code === "SERVICE_LOST";
}

function lost(url: string, reason: string, attempts: number): RerollError {
  return new RerollError("SERVICE_LOST", `${url} did not answer in ${attempts} attempts. The last one: ${reason}.`, {
    url,
  });
}

function toldError(url: string, status: number, text: string): RerollError {
  const { code, message } = fieldsOf(text);
  return new RerollError(code ?? "SERVICE_REFUSED", message ?? `${url} answered ${status}: ${text.slice(0, 200)}`, {
    url,
    status,
  });
}

function fieldsOf(text: string): { readonly code?: ErrorCode; readonly message?: string } {
  try {
    const { error } = JSON.parse(text) as { readonly error?: { readonly code?: unknown; readonly message?: unknown } };
    return {
      ...(isErrorCode(error?.code) && { code: error.code }),
      ...(typeof error?.message === "string" && { message: error.message }),
    };
  } catch {
    // A page of a proxy: its text is shown as it is.
    return {};
  }
}
