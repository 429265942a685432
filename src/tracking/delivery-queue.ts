/**
 * A queue of records for a server that may be slow, unreachable or unwilling.
 *
 * Takes records at any rate and hands them over in batches, in order, one request at a time. A failed batch is tried again, later and
 * later; meanwhile records gather up to a bound, then the oldest go. A refusal that will not change ends it. Each outage is one
 * warning.
 */
import { setTimeout as wait } from "node:timers/promises";
import type { MetricRecord } from "./run-record.ts";

/** What a queue works with. */
interface DeliveryParts {
  /** The name of the server in warnings. */
  readonly name: string;
  /** Hands over a batch. Throws `DeliveryRefused` where trying again makes no sense. */
  readonly send: (batch: readonly MetricRecord[], signal: AbortSignal) => Promise<void>;
  readonly warn: (text: string) => void;
  readonly options?: DeliveryOptions;
}

/** How patient a queue is. */
export interface DeliveryOptions {
  /** Time between two batches. Default 5000. */
  readonly intervalMs?: number;
  /** Maximum number of records in one batch. Default 100. */
  readonly maxBatch?: number;
  /** Maximum number of records that wait. Default 10,000: an outage of hours. */
  readonly maxWaiting?: number;
  /** Time between a failure and the first retry; it doubles up to a minute. Default 2000. */
  readonly retryMs?: number;
  /** Time to deliver what is left at the end of a run. Default 10,000. */
  readonly closeMs?: number;
}

const MAX_RETRY_MS = 60_000;

/** The server has said no: a wrong key, a project that is not there. */
export class DeliveryRefused extends Error {}

/** A queue of one server. Nothing that it does throws. */
export class DeliveryQueue {
  readonly #parts: DeliveryParts;
  readonly #options: Required<DeliveryOptions>;
  /** Ends everything: there is no time left. */
  readonly #abort = new AbortController();
  /** Ends the pause that is under way: the run is over. */
  readonly #hurry = new AbortController();
  readonly #waiting: MetricRecord[] = [];
  readonly #delivering: Promise<void>;
  #isClosing = false;
  #isOver = false;
  #numFailures = 0;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    const defaults = { intervalMs: 5000, maxBatch: 100, maxWaiting: 10_000, retryMs: 2000, closeMs: 10_000 };
    this.#options = { ...defaults, ...parts.options };
    this.#delivering = this.#deliver();
  }

  push(record: MetricRecord): void {
    if (this.#isOver) return;
    this.#waiting.push(record);
    if (this.#waiting.length > this.#options.maxWaiting) this.#waiting.shift();
  }

  /** Delivers what is left, as far as time allows. Returns whether all of it was delivered. */
  async close(): Promise<boolean> {
    this.#isClosing = true;
    this.#hurry.abort();
    const timer = setTimeout(() => this.#abort.abort(), this.#options.closeMs);
    await this.#delivering;
    clearTimeout(timer);
    const numLost = this.#waiting.length;
    if (numLost > 0 && !this.#isOver)
      this.#parts.warn(`${this.#parts.name} is still away: ${numLost} records are not there.`);
    return numLost === 0 && !this.#isOver;
  }

  async #deliver(): Promise<void> {
    while (!this.#isOver && !this.#abort.signal.aborted) {
      if (this.#waiting.length > 0) await this.#sendBatch();
      if (this.#isClosing && this.#waiting.length === 0) return;
      if (!this.#isClosing || this.#numFailures > 0) await this.#pause();
    }
  }

  async #sendBatch(): Promise<void> {
    const batch = this.#waiting.slice(0, this.#options.maxBatch);
    try {
      await this.#parts.send(batch, this.#abort.signal);
      this.#numFailures = 0;
      // The oldest may have been dropped meanwhile, so only what was sent is removed.
      const sent = new Set(batch);
      while (this.#waiting.length > 0 && sent.has(this.#waiting[0]!)) this.#waiting.shift();
    } catch (cause) {
      this.#fail(cause);
    }
  }

  #fail(cause: unknown): void {
    if (this.#abort.signal.aborted) return;
    const reason = cause instanceof Error ? cause.message : String(cause);
    if (cause instanceof DeliveryRefused) {
      this.#isOver = true;
      this.#parts.warn(`${this.#parts.name} refuses the metrics, and gets no more of them: ${reason}`);
    } else if (this.#numFailures++ === 0) {
      this.#parts.warn(`${this.#parts.name} cannot be reached and is tried again later: ${reason}`);
    }
  }

  async #pause(): Promise<void> {
    const { intervalMs, retryMs } = this.#options;
    const backoffMs = Math.min(MAX_RETRY_MS, retryMs * 2 ** Math.min(10, this.#numFailures - 1));
    const ms = this.#numFailures === 0 ? intervalMs : backoffMs;
    const { signal } = this.#isClosing ? this.#abort : this.#hurry;
    await wait(ms, undefined, { signal, ref: this.#isClosing }).catch(() => {});
  }
}
