/** What can go wrong with a remote engine: faults that may heal, and refusals that will not. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { HttpResponse } from "./http-client.ts";

const FAULT = "REMOTE_FAULT";

/** A failure after which the same request may work: a broken connection, a busy server, a garbled answer. */
export function remoteFault(message: string, more: { cause?: unknown; retryAfterMs?: number } = {}): RerollError {
  const { cause, retryAfterMs } = more;
  return new RerollError(FAULT, `${message}.`, retryAfterMs === undefined ? {} : { retryAfterMs }, { cause });
}

export function isRemoteFault(cause: unknown): cause is RerollError {
  return cause instanceof RerollError && cause.code === FAULT;
}

/** How long the server asked to wait; undefined when it did not say. */
export function retryAfterOf(fault: RerollError): number | undefined {
  const { retryAfterMs } = fault.details;
  return typeof retryAfterMs === "number" ? retryAfterMs : undefined;
}

/** Throws for an answer that is none: a fault where a retry makes sense, else what the server says is wrong. */
export async function refuseStatus(response: HttpResponse): Promise<void> {
  const { status, url } = response;
  if (status >= 200 && status < 300) return;
  const { message, code, type } = errorFields(await response.text());
  if (RETRIED.has(status)) {
    const retryAfterMs = parseRetryAfter(response.header("retry-after"));
    throw remoteFault(`${url} answered ${status}: ${message}`, retryAfterMs === undefined ? {} : { retryAfterMs });
  }
  if (isContextOverflow(code, type, message)) throw new RerollError("CONTEXT_OVERFLOW", message, { url, status });
  throw new RerollError("REMOTE_REFUSED", `${url} refuses the request with ${status}: ${message}`, {
    url,
    status,
    code,
  });
}

/** The same for an error inside a stream, where there is no status. */
export function streamError(error: unknown, url: string): RerollError {
  const { message, code, type } = errorFields(JSON.stringify({ error }));
  if (isContextOverflow(code, type, message)) return new RerollError("CONTEXT_OVERFLOW", message, { url });
  if (type === "invalid_request_error") {
    return new RerollError("REMOTE_REFUSED", `${url} refuses the request: ${message}`, { url, code });
  }
  return remoteFault(`${url} failed: ${message}`);
}

const RETRIED: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/** Our server and OpenAI have a code for it, llama.cpp a type, vLLM and SGLang only words. */
function isContextOverflow(code: unknown, type: unknown, message: string): boolean {
  return (
    code === "context_length_exceeded" ||
    type === "exceed_context_size_error" ||
    /maximum context length|longer than the model's context length/.test(message)
  );
}

/** Servers put the message at the top, under `error`, or send plain text. */
function errorFields(text: string): { message: string; code: unknown; type: unknown } {
  const body = fieldsOf(tryJson(text));
  const error = fieldsOf(body.error ?? body);
  const message = typeof error.message === "string" ? error.message : text.slice(0, 500);
  return { message, code: error.code, type: error.type };
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // An error page of a proxy; its text is shown as it is.
    return undefined;
  }
}

/** Seconds. Dates are not read: no inference server sends them, and they need a clock. */
function parseRetryAfter(header: string | undefined): number | undefined {
  const seconds = Number.parseFloat(header ?? "");
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
