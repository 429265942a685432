/** The latest different texts, up to a number of them: what was said is known, and memory does not grow with how often. */

export class LatestTexts {
  readonly #most: number;
  /** In the order in which they were added last. */
  readonly #texts = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Returns whether the text is new. */
  add(text: string): boolean {
    const isNew = !this.#texts.delete(text);
    this.#texts.add(text);
    if (this.#texts.size > this.#most) this.#texts.delete(this.#texts.values().next().value!);
    return isNew;
  }

  get size(): number {
    return this.#texts.size;
  }

  get last(): string | undefined {
    return [...this.#texts].at(-1);
  }
}
