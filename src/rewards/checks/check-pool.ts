/**
 * Checks that a person wrote, a pattern or a schema, applied to what a model wrote, in a thread with a time limit.
 *
 * Both can take time without end: `(a+)+$` doubles its time with every "a", and so do schemas with alternatives inside of
 * alternatives. A check that passes the limit rejects with REWARD_TIMEOUT: nobody knows whether the reply fits, and a made-up
 * miss would train on it.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import type { JsonValue } from "../../flow/prompt.ts";
import { startWorker } from "../../workers/start-worker.ts";
import { ThreadPool } from "../thread-pool.ts";

export interface MatchRequest {
  readonly pattern: string;
  /** Without `g`. */
  readonly flags: string;
  readonly text: string;
}

export interface SchemaRequest {
  readonly schema: JsonValue;
  /** A reply without its thoughts. */
  readonly text: string;
}

/** Whether a text holds JSON, and what about it does not fit the schema. */
export type SchemaFit = { readonly hasJson: false } | { readonly hasJson: true; readonly problem: string | undefined };

export type Check = ({ readonly kind: "match" } & MatchRequest) | ({ readonly kind: "schema" } & SchemaRequest);

export type CheckResult = { readonly found: string | undefined } | SchemaFit;

/** A check that ends takes microseconds; this is for machines under load. */
const TIMEOUT_MS = 1_000;
const MEMORY_LIMIT_MB = 256;

/** Owns threads once it has been asked: close it. */
export class CheckPool {
  readonly #threads = new ThreadPool<Check, CheckResult>({
    numWorkers: 1,
    timeoutMs: TIMEOUT_MS,
    startWorker: () =>
      startWorker(new URL("check-worker", import.meta.url), null, {
        resourceLimits: { maxOldGenerationSizeMb: MEMORY_LIMIT_MB },
      }),
    timedOut,
    crashed: (reason, { kind }) =>
      new RerollError("REWARD_CRASHED", `The thread that checks replies against a ${NAMES[kind]} failed: ${reason}.`),
  });

  /** The last match of a pattern: its first group where it has one, else all of it. */
  async lastMatch(request: MatchRequest, signal: AbortSignal): Promise<string | undefined> {
    const result = await this.#threads.run({ kind: "match", ...request }, signal);
    return "found" in result ? result.found : undefined;
  }

  /** How the JSON of a text fits a schema. */
  async fitSchema(request: SchemaRequest, signal: AbortSignal): Promise<SchemaFit> {
    const result = await this.#threads.run({ kind: "schema", ...request }, signal);
    return "hasJson" in result ? result : { hasJson: false };
  }

  /** Ends the thread. What still waits or runs rejects. */
  close(): Promise<void> {
    return this.#threads.close();
  }
}

const NAMES = { match: "pattern", schema: "schema" } as const;

function timedOut(check: Check): RerollError {
  const name = check.kind === "match" ? `pattern ${check.pattern}` : "schema";
  return new RerollError(
    "REWARD_TIMEOUT",
    `The ${name} took longer than ${TIMEOUT_MS} ms for a reply of ${check.text.length} characters and was stopped. ` +
      "Rewrite it so that nothing repeated is repeated again, as in (a+)+, and no alternative contains another.",
    { timeoutMs: TIMEOUT_MS },
  );
}
