/**
 * Errors as OpenAI's clients expect them.
 *
 * In: anything that was thrown while a request was handled. Out: a status, headers, and `{ error: { message, type, param,
 * code } }`. A RerollError is told to the client by its code; anything else is our own failure and stays inside.
 */
import type { ErrorCode } from "../../errors/error-codes.ts";
import { RerollError } from "../../errors/reroll-error.ts";

export interface OpenAiError {
  readonly message: string;
  readonly type: string;
  readonly param: string | null;
  readonly code: string | null;
}

export interface ErrorReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly error: OpenAiError };
}

/** @param retryAfterSeconds what a client is told to wait before it tries again, where trying again makes sense */
export function errorReplyOf(cause: unknown, retryAfterSeconds: number): ErrorReply {
  const error = cause instanceof RerollError ? cause : frameworkError(cause);
  const { status, type, code } = RULES[error.code] ?? UNLISTED;
  const { param, allow } = error.details;
  return {
    status,
    headers: { ...headersFor(status, retryAfterSeconds), ...(typeof allow === "string" && { allow }) },
    body: { error: { message: error.message, type, param: typeof param === "string" ? param : null, code } },
  };
}

/** Whether an error is the server's own fault and belongs into its log. */
export function isOwnFault(reply: ErrorReply): boolean {
  return reply.status === 500;
}

/** A field of the request that cannot be served. `param` is its name as the client typed it. */
export function requestError(param: string, message: string): RerollError {
  return new RerollError("INVALID_REQUEST", message, { param });
}

/** The failure of a generation, for the client that waits for it. Those that a retry may heal, or another request, keep their code. */
export function generationError(error: RerollError): RerollError {
  const status = RULES[error.code]?.status ?? 500;
  if (status === 429 || status === 503 || error.code === "CONSTRAINT_STUCK") return error;
  return new RerollError("GENERATION_FAILED", `The generation failed: ${error.message}`, error.details, {
    cause: error,
  });
}

interface Rule {
  readonly status: number;
  readonly type: string;
  readonly code: string | null;
}

const INVALID = "invalid_request_error";
const RATE = "rate_limit_error";
const OWN = "server_error";

/** A request that an engine rejects with a code of its own is one that can never work. */
const UNLISTED: Rule = { status: 400, type: INVALID, code: null };

const RULES: Readonly<Partial<Record<ErrorCode, Rule>>> = {
  INVALID_REQUEST: { status: 400, type: INVALID, code: "invalid_value" },
  JSON_INVALID: { status: 400, type: INVALID, code: "invalid_json" },
  CONTEXT_OVERFLOW: { status: 400, type: INVALID, code: "context_length_exceeded" },
  CONSTRAINT_STUCK: { status: 400, type: INVALID, code: "format_unwritable" },
  CHAT_REFUSED: { status: 400, type: INVALID, code: "chat_template_refused" },
  SESSION_FULL: { status: 400, type: INVALID, code: "session_full" },
  HOST_REFUSED: { status: 403, type: INVALID, code: "host_refused" },
  REQUEST_TIMEOUT: { status: 408, type: INVALID, code: "request_timeout" },
  HEADERS_TOO_LARGE: { status: 431, type: INVALID, code: "headers_too_large" },
  KEY_INVALID: { status: 401, type: INVALID, code: "invalid_api_key" },
  MODEL_UNKNOWN: { status: 404, type: INVALID, code: "model_not_found" },
  METHOD_REFUSED: { status: 405, type: INVALID, code: "method_not_allowed" },
  EXPECTATION_REFUSED: { status: 417, type: INVALID, code: "expectation_failed" },
  ROUTE_UNKNOWN: { status: 404, type: INVALID, code: "unknown_url" },
  RESPONSE_UNKNOWN: { status: 404, type: INVALID, code: "response_not_found" },
  SESSION_UNKNOWN: { status: 404, type: INVALID, code: "session_not_found" },
  REMOTE_TAKEN: { status: 409, type: INVALID, code: "weights_taken" },
  SESSION_ENDED: { status: 409, type: INVALID, code: "session_ended" },
  BODY_TOO_LARGE: { status: 413, type: INVALID, code: "request_too_large" },
  MEDIA_TYPE_UNKNOWN: { status: 415, type: INVALID, code: "unsupported_media_type" },
  QUEUE_FULL: { status: 429, type: RATE, code: "queue_full" },
  ENGINE_PAUSED: { status: 429, type: RATE, code: "weights_updating" },
  SESSIONS_FULL: { status: 429, type: RATE, code: "too_many_sessions" },
  INTERNAL: { status: 500, type: OWN, code: "internal_error" },
  GENERATION_FAILED: { status: 500, type: OWN, code: "generation_failed" },
  ENGINE_BROKEN: { status: 500, type: OWN, code: "engine_broken" },
  GENERATION_ABORTED: { status: 503, type: OWN, code: "generation_aborted" },
  ENGINE_CLOSED: { status: 503, type: OWN, code: "engine_closed" },
  REMOTE_UNAVAILABLE: { status: 503, type: OWN, code: "engine_unavailable" },
};

function headersFor(status: number, retryAfterSeconds: number): Readonly<Record<string, string>> {
  if (status === 429 || status === 503) return { "retry-after": String(Math.ceil(retryAfterSeconds)) };
  // The openai package repeats requests that conflict, which cannot help here.
  return status === 409 ? { "x-should-retry": "false" } : {};
}

function frameworkError(cause: unknown): RerollError {
  const { code, statusCode, message } = fieldsOf(cause);
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new RerollError(
      "BODY_TOO_LARGE",
      "The request body is larger than this server accepts. Send less at a time.",
    );
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE") {
    return new RerollError("MEDIA_TYPE_UNKNOWN", `${message}. Send JSON with content-type application/json.`);
  }
  if (statusCode === 400 && cause instanceof SyntaxError) return invalidJson(message);
  if (code === "FST_ERR_CTP_EMPTY_JSON_BODY" || code === "FST_ERR_CTP_INVALID_JSON_BODY") return invalidJson(message);
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500) return requestError("body", `${message}.`);
  return new RerollError("INTERNAL", "internal: the server failed to handle this request.", {}, { cause });
}

function invalidJson(message: string): RerollError {
  return new RerollError("JSON_INVALID", `The request body is not valid JSON: ${message}.`);
}

function fieldsOf(cause: unknown): { code: unknown; statusCode: number | undefined; message: string } {
  if (!(cause instanceof Error)) return { code: undefined, statusCode: undefined, message: String(cause) };
  const statusCode: unknown = Reflect.get(cause, "statusCode");
  return {
    code: Reflect.get(cause, "code"),
    statusCode: typeof statusCode === "number" ? statusCode : undefined,
    message: cause.message.replace(/\.$/, ""),
  };
}
