/**
 * Ranks that have consecutive layers of a model each: what one makes is handed to the next, and gradients come back the same way.
 *
 * Handing on does not wait: a stage goes on with its next pass while the message is on its way. Taking blocks the thread until there is
 * something to take. The two directions have a group each, since messages of one must not wait for those of the other.
 */
import { backward, isGradEnabled } from "../autograd.ts";
import { type TensorOptions, zerosLike } from "../create.ts";
import type { Device } from "../dtype.ts";
import { type HeldScope, heldScope, tensorScope } from "../scope.ts";
import type { Tensor } from "../tensor.ts";
import { Collective, rangeOf } from "./collective.ts";

/** A forward pass whose gradients have not come back yet: what it took from the stage before, and what it handed on. */
export interface StagePass {
  readonly taken: readonly Tensor[];
  readonly handed: HeldScope<readonly Tensor[]>;
}

export class Stages {
  /** All layers are here. */
  static readonly alone = new Stages(Collective.alone, Collective.alone);
  readonly ranks: Collective;
  readonly #back: Collective;
  #taken: Tensor[] = [];
  #sent: Promise<void>[] = [];

  constructor(ranks: Collective, back: Collective) {
    this.ranks = ranks;
    this.#back = back;
  }

  get count(): number {
    return this.ranks.count;
  }

  get isFirst(): boolean {
    return this.ranks.index === 0;
  }

  get isLast(): boolean {
    return this.ranks.index === this.ranks.count - 1;
  }

  /** The stages after this one. */
  get numBehind(): number {
    return this.count - 1 - this.ranks.index;
  }

  /** The stage that has a layer, of so many. */
  stageOf(layer: number, numLayers: number): number {
    return Array.from({ length: this.count }, (_, stage) => rangeOf(numLayers, stage, this.count)).findIndex(
      ({ start, length }) => layer < start + length,
    );
  }

  /** What the stage before hands on. Gradients that reach it go back there: see `record`. */
  take(shape: readonly number[], place: TensorOptions): Tensor {
    const value = this.ranks.receive(shape, place, this.ranks.index - 1);
    if (!isGradEnabled()) return value;
    value.requiresGrad = true;
    this.#taken.push(value);
    return value;
  }

  /** Hands a value to the next stage. */
  hand(value: Tensor): Tensor {
    this.#send(this.ranks, value, this.ranks.index + 1);
    return value;
  }

  /** Makes a forward pass, which gives what it handed on. Everything that it made lives until `differentiate`. */
  record(forward: () => readonly Tensor[]): StagePass {
    const taken: Tensor[] = [];
    this.#taken = taken;
    return { taken, handed: heldScope(forward) };
  }

  /** The backward pass of a forward pass, the oldest that had none: takes gradients from the next stage, and hands back those of what was taken. */
  differentiate({ taken, handed }: StagePass): void {
    tensorScope(() => {
      const next = this.#back.index + 1;
      const all = handed.result.map((value) => ({ value, gradient: this.#back.receive(value.shape, value, next) }));
      // With adapters, nothing may learn in a stage or before it.
      const learning = all.filter(({ value }) => value.requiresGrad);
      const [values, gradients] = [learning.map((one) => one.value), learning.map((one) => one.gradient)];
      if (learning.length > 0) backward(values, gradients);
      this.#handBack(taken);
    });
    handed.end();
  }

  /** Both passes of the last stage, of which `pass` makes the forward one and, from its loss, the backward one. */
  turn(pass: () => void): void {
    tensorScope(() => {
      const taken: Tensor[] = [];
      this.#taken = taken;
      pass();
      this.#handBack(taken);
    });
  }

  /** Resolves when everything has been taken that was handed on. */
  async settle(): Promise<void> {
    const sent = this.#sent;
    this.#sent = [];
    await Promise.all(sent);
  }

  /** The value that one stage has, on a device of the first one; null on all others. Those without it give its shape and type alone. */
  toFirst(value: Tensor, from: number, device: Device): Tensor | null {
    const { shape, dtype } = value;
    if (this.isFirst) return from === 0 ? value : this.ranks.receive(shape, { dtype, device }, from);
    if (this.ranks.index === from) this.#send(this.ranks, value, 0);
    return null;
  }

  #handBack(taken: readonly Tensor[]): void {
    for (const one of taken) this.#send(this.#back, one.grad ?? zerosLike(one.detach()), this.#back.index - 1);
  }

  #send(ranks: Collective, value: Tensor, to: number): void {
    const sent = ranks.send(value, to);
    // Told by `settle`; until then it must not count as unhandled.
    sent.catch(() => undefined);
    this.#sent.push(sent);
  }
}
