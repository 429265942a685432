/**
 * Weights in slots, and a way to draw a slot in proportion to its weight, by a place in their sum.
 *
 * A binary tree of sums over the slots. Setting and finding take a logarithm of the number of slots. Every sum is
 * recomputed from the two below it, so rounding errors do not add up over updates, and equal weights give equal sums in
 * any order of sets.
 */
import { invariant } from "../errors/reroll-error.ts";

export class SumTree {
  readonly numSlots: number;
  /** Node 1 is the root, node i has the children 2i and 2i + 1, and the slots are the last ones. */
  readonly #sums: Float64Array;
  readonly #firstSlot: number;

  /** All weights are 0 at first. */
  constructor(numSlots: number) {
    invariant(Number.isSafeInteger(numSlots) && numSlots > 0, "a sum tree has at least one slot");
    this.numSlots = numSlots;
    this.#firstSlot = 2 ** Math.ceil(Math.log2(numSlots));
    this.#sums = new Float64Array(2 * this.#firstSlot);
  }

  get total(): number {
    return this.#sums[1]!;
  }

  get(slot: number): number {
    return this.#sums[this.#firstSlot + slot]!;
  }

  set(slot: number, weight: number): void {
    invariant(slot >= 0 && slot < this.numSlots, `slot ${slot} is one of ${this.numSlots}`);
    invariant(weight >= 0 && weight < Infinity, `a weight is finite and at least 0, not ${weight}`);
    let node = this.#firstSlot + slot;
    this.#sums[node] = weight;
    for (node >>= 1; node >= 1; node >>= 1) this.#sums[node] = this.#sums[2 * node]! + this.#sums[2 * node + 1]!;
  }

  /** The slot whose stretch of the total holds `place`, from 0 to below the total. Never a slot of weight 0. */
  find(place: number): number {
    invariant(this.total > 0, "something in a sum tree has weight");
    let rest = place;
    let node = 1;
    while (node < this.#firstSlot) {
      const left = this.#sums[2 * node]!;
      const right = this.#sums[2 * node + 1]!;
      // Rounding may leave a remainder past the last weight.
      const isLeft = rest < left || right === 0;
      if (!isLeft) rest -= left;
      node = 2 * node + (isLeft ? 0 : 1);
    }
    return node - this.#firstSlot;
  }
}
