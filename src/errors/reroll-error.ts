/**
 * The one error class of the project, and the one way to state an invariant.
 *
 * A message has up to four parts in this order: what is wrong; what we got; what is allowed; what to do.
 */

import type { ErrorCode } from "./error-codes.ts";

/** An error a user can act on. `code` is stable, see `error-codes.ts`; `details` holds the values the message talks about. */
export class RerollError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "RerollError";
    this.code = code;
    this.details = details;
  }
}

/** Throws when a fact that only our own code can break does not hold. */
export function invariant(condition: unknown, fact: string): asserts condition {
  if (!condition) throw new RerollError("INTERNAL", `internal: ${fact}`);
}
