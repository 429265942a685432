/** Numbers that are only ever added to, 8 bytes each: a list of a million of them is nothing. */
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

  /** A view; it shows what was added until now. */
  view(): Float64Array {
    return this.#values.subarray(0, this.#length);
  }
}
