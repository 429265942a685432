/** Which session a request belongs to: the one in its header, or in its path for clients that can only set a URL. */
import type { FastifyRequest } from "fastify";
import { requestError } from "./openai-errors.ts";

export const SESSION_HEADER = "x-reroll-session";

/** Undefined when the request belongs to no session. */
export function sessionIdOf({ headers, params }: FastifyRequest): string | undefined {
  const header = headers[SESSION_HEADER];
  if (Array.isArray(header)) throw requestError(SESSION_HEADER, `${SESSION_HEADER} must be sent once.`);
  return header ?? pathParameter(params, "session");
}

/** A named part of the path. */
export function pathParameter(params: unknown, name: string): string | undefined {
  const value: unknown = typeof params === "object" && params !== null ? Reflect.get(params, name) : undefined;
  return typeof value === "string" ? value : undefined;
}
