/** Errors as plain data, so that they cross from one worker to another. */
import { RerollError } from "../errors/reroll-error.ts";

/** An error on its way: everything of it that a person or a program reads. */
export interface ErrorMessage {
  readonly code: RerollError["code"];
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
  /** Where it was thrown, on the other side. */
  readonly stack: string | undefined;
}

/** An error that is not reroll's own gets the code INTERNAL. Details that cannot be cloned stay behind. */
export function packError(error: unknown): ErrorMessage {
  if (!(error instanceof Error)) return { code: "INTERNAL", message: String(error), details: {}, stack: undefined };
  const { message, stack } = error;
  if (!(error instanceof RerollError)) return { code: "INTERNAL", message, details: {}, stack };
  return { code: error.code, message, details: cloneable(error.details), stack };
}

/** The same error on this side, with the stack of the other one. */
export function unpackError({ code, message, details, stack }: ErrorMessage): RerollError {
  const error = new RerollError(code, message, details);
  if (stack !== undefined) error.stack = stack;
  return error;
}

function cloneable(details: RerollError["details"]): RerollError["details"] {
  return Object.fromEntries(Object.entries(details).filter(([, value]) => isCloneable(value)));
}

function isCloneable(value: unknown): boolean {
  try {
    structuredClone(value);
    return true;
  } catch {
    return false;
  }
}
