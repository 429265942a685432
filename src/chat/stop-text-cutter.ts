/**
 * Keeps stop strings out of the text that a client sees.
 *
 * In: text as it comes. Out: the text before the first stop string; what may be the beginning of one is held back.
 */
export class StopTextCutter {
  readonly #stopStrings: readonly string[];
  #held = "";
  #hasStopped = false;

  constructor(stopStrings: readonly string[]) {
    this.#stopStrings = stopStrings;
  }

  push(text: string): string {
    if (this.#hasStopped) return "";
    if (this.#stopStrings.length === 0) return text;
    const all = this.#held + text;
    const stop = this.#firstStop(all);
    if (stop !== -1) {
      this.#hasStopped = true;
      this.#held = "";
      return all.slice(0, stop);
    }
    const certain = all.length - this.#longestBeginning(all);
    this.#held = all.slice(certain);
    return all.slice(0, certain);
  }

  /** Ends the text and returns what was held back. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  #firstStop(text: string): number {
    const found = this.#stopStrings.map((stop) => text.indexOf(stop)).filter((at) => at !== -1);
    return found.length === 0 ? -1 : Math.min(...found);
  }

  #longestBeginning(text: string): number {
    const lengths = this.#stopStrings.map((stop) => {
      for (let length = Math.min(stop.length - 1, text.length); length > 0; length--) {
        if (text.endsWith(stop.slice(0, length))) return length;
      }
      return 0;
    });
    return Math.max(...lengths);
  }
}
