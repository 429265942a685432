/**
 * Calls to a service on another machine: JSON over HTTP, asked again where the way there was at fault.
 *
 * Every call must be one that may be asked twice: a reply that is lost on its way is asked for again. How long a call takes does not tell whether
 * anybody is at work on it, so while one is under way the service is asked for a sign of life, and is lost where it gives none. Waits for: the
 * service, up to `timeoutMs` per attempt and twice `signMs` without a sign; a signal ends it at once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ErrorCode, isErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { splitAddress } from "../errors/secret.ts";
import { HttpConnections } from "./http-connections.ts";
import { jsonHeaders } from "./json-headers.ts";

interface ServiceOptions {
  readonly url: string;
  readonly apiKey?: string | undefined;
  /** How long one attempt may take. */
  readonly timeoutMs: number;
  /** A path that the service answers at once, whatever else it does. */
  readonly signPath: string;
  /** How often a sign of life is asked for while a call is under way, and how long it may take. Default 10,000. */
  readonly signMs?: number;
}

/** Waits before the second attempt and those after it: a service that starts again is there after a few seconds. */
const RETRY_MS = [100, 400, 1600, 3000, 3000];

/** Answers of a proxy, or of a service that is starting up. */
const RETRIED: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/** What a proxy answers for a service that does not: no sign of its life. */
const NO_SIGN: ReadonlySet<number> = new Set([502, 503, 504]);

/** The parts in which the time for a sign of life is counted. */
const BEATS = 10;

/** How long a service that was lost is asked after the others, unless it answers before. */
const LOST_MS = 60_000;

let numLost = 0;

export class ServiceClient {
  readonly url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutMs: number;
  readonly #signPath: string;
  readonly #signMs: number;
  readonly #connections: HttpConnections;
  /** The question for a sign of life that is under way. */
  #sign: Promise<boolean> | null = null;
  #lostAs = 0;
  #forgetting: NodeJS.Timeout | undefined;

  constructor({ url, apiKey, timeoutMs, signPath, signMs = 10_000 }: ServiceOptions) {
    const address = splitAddress(url);
    this.url = address.url.replace(/\/+$/, "");
    this.#timeoutMs = timeoutMs;
    this.#signPath = signPath;
    this.#signMs = signMs;
    this.#connections = new HttpConnections({ url: this.url });
    this.#headers = jsonHeaders(address, apiKey);
  }

  /** Greater the later it was lost, for whoever chooses among several. 0: it answers, as far as is known. */
  get lostAs(): number {
    return this.#lostAs;
  }

  /** Rejects with SERVICE_LOST where it does not answer, and with the error that the service tells otherwise. */
  async call(method: "GET" | "POST" | "DELETE", path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    // Neither this nor an answer of another kind would be any different the next time.
    const text = body === undefined ? undefined : jsonOf(this.url, body);
    const ending = new AbortController();
    const end = () => ending.abort();
    signal?.addEventListener("abort", end, { once: true });
    let isSilent = false;
    const watching = setInterval(async () => {
      if (await this.#givesSign()) return;
      isSilent = true;
      end();
    }, this.#signMs);
    try {
      for (let attempt = 0; ; attempt++) {
        signal?.throwIfAborted();
        const answer = await this.#attempt(method, path, text, ending.signal);
        if (!("fault" in answer)) return answer.value;
        signal?.throwIfAborted();
        const delayMs = RETRY_MS[attempt];
        // Cut short where the caller gives up, or the service turns out to be silent.
        if (delayMs !== undefined) await sleep(delayMs, undefined, { signal: ending.signal }).catch(() => {});
        if (isSilent) throw this.#lose(`gave no sign of life within ${this.#signMs} ms`, true);
        if (delayMs === undefined)
          throw this.#lose(`did not answer in ${attempt + 1} attempts. The last one: ${answer.fault}`);
      }
    } finally {
      clearInterval(watching);
      signal?.removeEventListener("abort", end);
    }
  }

  async #attempt(method: string, path: string, body: string | undefined, ending: AbortSignal) {
    // Taken back when the answer is there: AbortSignal.timeout would keep each of many calls in memory until its time is up.
    const attempt = new AbortController();
    const end = () => attempt.abort();
    const timer = setTimeout(end, this.#timeoutMs);
    ending.addEventListener("abort", end, { once: true });
    try {
      const { status, text } = await this.#connections.exchange({
        ...{ method, path, headers: this.#headers, signal: attempt.signal, body },
      });
      if (RETRIED.has(status)) return { fault: `it answered ${status}` };
      this.#find();
      if (status < 200 || status > 299) throw toldError(this.url, status, text);
      return { value: text === "" ? undefined : answerOf(this.url, text) };
    } catch (cause) {
      if (cause instanceof RerollError) throw cause;
      if (attempt.signal.aborted) return { fault: `it did not answer within ${this.#timeoutMs} ms` };
      return { fault: cause instanceof Error ? cause.message : String(cause) };
    } finally {
      clearTimeout(timer);
      ending.removeEventListener("abort", end);
    }
  }

  /** Calls that are under way at the same time share one question. */
  #givesSign(): Promise<boolean> {
    this.#sign ??= this.#askSign().finally(() => {
      this.#sign = null;
    });
    return this.#sign;
  }

  async #askSign(): Promise<boolean> {
    const limit = new AbortController();
    // Of the beats that this process itself was halted for, one counts: what came meanwhile is read before the next.
    let numBeats = 0;
    const timer = setInterval(() => {
      if (++numBeats === BEATS) limit.abort();
    }, this.#signMs / BEATS);
    const question = { method: "GET", path: this.#signPath, headers: this.#headers, signal: limit.signal };
    try {
      return !NO_SIGN.has((await this.#connections.exchange(question)).status);
    } catch {
      return false;
    } finally {
      clearInterval(timer);
    }
  }

  #lose(reason: string, isSilent = false): RerollError {
    this.#find();
    this.#lostAs = ++numLost;
    this.#forgetting = setTimeout(() => this.#find(), LOST_MS).unref();
    return new RerollError("SERVICE_LOST", `${this.url} ${reason}.`, { url: this.url, isSilent });
  }

  #find(): void {
    clearTimeout(this.#forgetting);
    this.#lostAs = 0;
  }
}

/** Whether a service could not be reached, and not just refused something. */
export function isServiceLost(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && cause.code === "SERVICE_LOST";
}

function jsonOf(url: string, body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new RerollError(
      "INVALID_REQUEST",
      `What is asked of ${url} cannot be written as JSON: ${reason}. It must be plain data: texts, numbers, booleans, lists and objects.`,
      { url },
      { cause },
    );
  }
}

function answerOf(url: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new RerollError(
      "SERVICE_REFUSED",
      `${url} answered with something that is not JSON: ${JSON.stringify(text.slice(0, 80))}. Set url to the address of a server of "reroll serve-environments".`,
      { url },
      { cause },
    );
  }
}

function toldError(url: string, status: number, text: string): RerollError {
  const { code, message } = fieldsOf(text);
  const words = message ?? `${url} answered ${status}: ${text.slice(0, 200)}`;
  // Of several servers and keys, the run has to say which. Other errors are those of episodes, told as they were thrown.
  const isKey = code === "KEY_INVALID" && message !== undefined;
  return new RerollError(code ?? "SERVICE_REFUSED", isKey ? `${url} refused the run: ${words}` : words, {
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
