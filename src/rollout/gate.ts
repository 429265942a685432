/** Holds generation back while it is closed: requests that run are ended with their tokens, and go on when it opens. */
export class Gate {
  readonly #closing = new Set<() => void>();
  readonly #opening = new Set<() => void>();
  #isOpen = true;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const listener of [...this.#closing]) listener();
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    for (const listener of [...this.#opening]) listener();
  }

  /** Calls `listener` whenever the gate closes, until the returned function is called. */
  onClose(listener: () => void): () => void {
    this.#closing.add(listener);
    return () => this.#closing.delete(listener);
  }

  /** Waits for: the gate to open. Freed by: open, or the signal. */
  whenOpen(signal: AbortSignal): Promise<void> {
    if (this.#isOpen || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#opening.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#opening.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
