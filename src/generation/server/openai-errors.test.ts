import { expect, test } from "vitest";
import { RerollError } from "../../errors/reroll-error.ts";
import { errorReplyOf, generationError, isOwnFault } from "./openai-errors.ts";

test("a format that no token of the vocabulary fits is the request's fault, other failures of a generation are the server's", () => {
  const replyTo = (code: "CONSTRAINT_STUCK" | "NON_FINITE" | "QUEUE_FULL") => {
    const reply = errorReplyOf(generationError(new RerollError(code, "No.")), 1);
    return [reply.status, reply.body.error.code, isOwnFault(reply)];
  };
  expect(replyTo("CONSTRAINT_STUCK")).toEqual([400, "format_unwritable", false]);
  expect(replyTo("NON_FINITE")).toEqual([500, "generation_failed", true]);
  expect(replyTo("QUEUE_FULL")).toEqual([429, "queue_full", false]);
});
