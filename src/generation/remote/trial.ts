/**
 * What a server is asked before it is used, one thing after another, all within one limit.
 *
 * What takes more than a second is said. What is not answered when the time is over is let go, and the error names it.
 */
import { RerollError } from "../../errors/reroll-error.ts";

/** An answer that takes longer is worth a word. */
export const QUIET_MS = 1000;

interface TrialOptions {
  /** What to call the server. */
  readonly title: string;
  readonly url: string;
  /** For all questions together, from now on. Undefined: as long as each of them may take. */
  readonly limitMs: number | undefined;
  readonly report: ((text: string) => void) | undefined;
}

export class Trial {
  readonly #options: TrialOptions;
  readonly #limit = new AbortController();
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(options: TrialOptions) {
    this.#options = options;
    const { limitMs } = options;
    if (limitMs !== undefined) this.#timer = setTimeout(() => this.#limit.abort(), limitMs);
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#limit.signal;
  }

  /** Resolves with the answer to one question. Rejects with REMOTE_UNAVAILABLE where the time is over before. */
  async ask<Answer>(what: string, question: () => Promise<Answer>): Promise<Answer> {
    const { title, url, report } = this.#options;
    const { signal } = this;
    let end = () => {};
    const over = new Promise<never>((_, reject) => {
      end = () => reject(this.#tooLate(what));
      if (signal.aborted) end();
      else signal.addEventListener("abort", end, { once: true });
    });
    const words = setTimeout(() => report?.(`Waiting for ${title} at ${url} to ${what}.`), QUIET_MS);
    try {
      const answer = question();
      // Nobody asks any more what becomes of it once the time is over.
      answer.catch(() => {});
      return await Promise.race([over, answer]);
    } finally {
      clearTimeout(words);
      signal.removeEventListener("abort", end);
    }
  }

  /** No more is asked. */
  end(): void {
    clearTimeout(this.#timer);
  }

  #tooLate(what: string): RerollError {
    const { title, url, limitMs = 0 } = this.#options;
    return new RerollError(
      "REMOTE_UNAVAILABLE",
      `${title} at ${url} was asked to ${what} and has not answered: all that it is asked at the start may take ${limitMs / 1000} s. Look at its log, and start it again.`,
    );
  }
}
