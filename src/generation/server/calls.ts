/**
 * The requests for tokens that are being answered, and whether one more may begin.
 *
 * Bounded by `maxInFlight` and by the engine's queue. Nothing waits here: who finds no place is told to come back.
 */
import type { ServerResponse } from "node:http";
import { RerollError } from "../../errors/reroll-error.ts";
import type { ServedEngine } from "../engine.ts";

export class Calls {
  readonly #engine: ServedEngine;
  readonly #maxInFlight: number;
  readonly #running = new Set<AbortController>();

  constructor(engine: ServedEngine, maxInFlight: number) {
    this.#engine = engine;
    this.#maxInFlight = maxInFlight;
  }

  get numInFlight(): number {
    return this.#running.size;
  }

  /** Throws while the engine cannot take this many more requests. */
  admit(numChoices: number): void {
    const { isPaused, queuedRequests, maxQueuedRequests } = this.#engine.status();
    if (isPaused) {
      throw new RerollError("ENGINE_PAUSED", "The weights are being updated. Try again after the time in Retry-After.");
    }
    if (queuedRequests + numChoices > maxQueuedRequests) {
      throw queueFull(`${queuedRequests} requests wait, and ${maxQueuedRequests} may`);
    }
  }

  /** Runs work with a signal that is given when the client hangs up, or when the server closes. */
  async run<Result>(response: ServerResponse, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    if (this.#running.size >= this.#maxInFlight) throw queueFull(`${this.#maxInFlight} are being answered`);
    const controller = new AbortController();
    const onClose = () => controller.abort();
    this.#running.add(controller);
    // A client may hang up while its request is still being read.
    if (response.destroyed) controller.abort();
    response.once("close", onClose);
    try {
      return await work(controller.signal);
    } finally {
      response.off("close", onClose);
      this.#running.delete(controller);
    }
  }

  abortAll(): void {
    for (const controller of this.#running) controller.abort();
  }
}

function queueFull(why: string): RerollError {
  return new RerollError("QUEUE_FULL", `The server is busy: ${why}. Try again after the time in Retry-After.`);
}
