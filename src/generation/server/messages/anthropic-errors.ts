/** Errors as Anthropic's clients expect them: the statuses of all other routes, in Anthropic's shape. */
import type { ErrorReply } from "../openai-errors.ts";

const TYPES: Readonly<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
};

/** The body of an answer that failed. */
export function anthropicBody({ status, body }: ErrorReply): object {
  const type = TYPES[status] ?? (status >= 500 ? "api_error" : "invalid_request_error");
  return { type: "error", error: { type, message: body.error.message } };
}

/** The event of a stream that failed. @param type OpenAI's */
export function anthropicError(type: string, message: string): object {
  return { type: "error", error: { type: type === "server_error" ? "api_error" : type, message } };
}
