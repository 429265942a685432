/** Which errors say that what was asked for can never work: the caller has to write something else. All others are failures. */
import type { ErrorCode } from "./error-codes.ts";
import { RerollError } from "./reroll-error.ts";

const CODES: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "RUN_FILE_NOT_FOUND",
  "RUN_FILE_INVALID",
  "INVALID_OVERRIDE",
  "INVALID_OPTION",
  "CONTRADICTORY_OPTIONS",
  "MISSING_KEY",
  "FILE_NOT_FOUND",
  "FILE_INVALID",
  "INVALID_CONFIG",
  "FILE_EXISTS",
  "DATA_UNREADABLE",
  "DATA_INVALID",
  "DATA_EMPTY",
  "SCHEMA_UNKNOWN",
  "RUN_NOT_FOUND",
  "RUN_EXISTS",
  "CHECKPOINT_NOT_FOUND",
  "BASE_NOT_FOUND",
  "TOKENIZER_MISSING",
  "VOCABULARY_MISMATCH",
  "REMOTE_INCAPABLE",
  "SERVER_UNPROTECTED",
  "NOT_ENOUGH_MEMORY",
  "NO_DEVICE",
  "PACKAGE_MISSING",
  "HUB_NOT_FOUND",
  "HUB_REFUSED",
  "JOB_NOT_FOUND",
]);

export function isRefusal(error: unknown): boolean {
  return error instanceof RerollError && CODES.has(error.code);
}
