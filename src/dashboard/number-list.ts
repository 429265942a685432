/** A list of numbers that only grows, at 8 bytes each, so that a million of them take little memory. */
export class NumberList {
  #values = new Float64Array(64);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(value: number): void {
    if (this.#length === this.#values.length) {
      const values = new Float64Array(2 * this.#length);
      values.set(this.#values);
      this.#values = values;
    }
    this.#values[this.#length++] = value;
  }

  /** A view of everything added so far. */
  view(): Float64Array {
    return this.#values.subarray(0, this.#length);
  }
}
