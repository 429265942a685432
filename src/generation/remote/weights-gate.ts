/**
 * Holds requests while a server is given weights, where its replies do not say which weights drew them.
 *
 * A server that is stopped takes requests and draws them later, by the new weights, while whoever sent them takes them for the old ones. So none are
 * sent meanwhile, and those that were on their way are told by `numChanges`. Waits for: the end of the change, or the signal of a request.
 */

export class WeightsGate {
  readonly #waiting = new Set<(failure: unknown) => void>();
  #numHolds = 0;
  #numChanges = 0;

  /** How many changes have begun. */
  get numChanges(): number {
    return this.#numChanges;
  }

  /** Requests wait until what it returns is called, once; where that is given a failure, they fail with it. */
  hold(): (failure?: unknown) => void {
    this.#numHolds++;
    this.#numChanges++;
    return (failure) => {
      if (--this.#numHolds > 0) return;
      for (const end of [...this.#waiting]) end(failure);
    };
  }

  /** Holds requests until the change has ended. They fail where it does. */
  async during(change: () => Promise<void>): Promise<void> {
    const release = this.hold();
    try {
      await change();
    } catch (cause) {
      release(cause);
      throw cause;
    }
    release();
  }

  /** Resolves when no change is under way, or when the signal aborts. Rejects with the failure of the change that it has waited for. */
  async whenOpen(signal: AbortSignal | undefined): Promise<void> {
    while (this.#numHolds > 0 && !signal?.aborted) await this.#nextEnd(signal);
  }

  #nextEnd(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (failure: unknown) => {
        this.#waiting.delete(end);
        signal?.removeEventListener("abort", abort);
        if (failure === undefined) resolve();
        else reject(failure);
      };
      const abort = () => end(undefined);
      this.#waiting.add(end);
      signal?.addEventListener("abort", abort, { once: true });
    });
  }
}
