/** The gated MLP: down(gate(x) * up(x)). */
import { isGradEnabled } from "../../torch/autograd.ts";
import type { TensorOptions } from "../../torch/create.ts";
import { Module } from "../../torch/nn/module.ts";
import { geglu, joinsActivation, swiglu, swigluLinear, swigluMlp, swigluProduct } from "../../torch/swiglu.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { LayerPart, LayerWeight } from "./decoder-features.ts";
import { evenShare, wholeModel } from "./model-spread.ts";
import { Projection } from "./projection.ts";

/** The shape of an MLP, and the names of its parts. */
interface MlpOptions {
  readonly innerWidth: number;
  readonly hasBias: boolean;
  /** GELU in place of SiLU. */
  readonly hasGeluGate: boolean;
  /** One name where checkpoints hold both projections as one. */
  readonly gateUp: readonly [gate: LayerPart, up: LayerPart] | readonly [both: LayerPart];
  readonly down: LayerPart;
}

export class Mlp extends Module {
  readonly gateUp: Projection;
  readonly down: Projection;
  readonly #gate: (gateUp: Tensor) => Tensor;

  constructor(
    width: number,
    { innerWidth, hasBias, hasGeluGate, gateUp, down }: MlpOptions,
    place: TensorOptions,
    ranks = wholeModel.tensor,
  ) {
    super();
    const own = evenShare(innerWidth, ranks.count);
    const partWidth = (2 * own) / gateUp.length;
    const parts = gateUp.map((name) => ({ name, width: partWidth }));
    this.gateUp = new Projection(width, parts, hasBias, place, { output: ranks });
    this.down = new Projection(own, [{ name: down, width }], hasBias, place, { input: ranks });
    this.#gate = hasGeluGate ? geglu : swiglu;
  }

  /** Where nobody reads the result (see isRepeating), only its gradient is right. */
  forward(x_SD: Tensor, isRead = true): Tensor {
    if (this.#gate !== swiglu || !this.down.isPlain) return this.down.forward(this.inner(x_SD));
    return this.#isJoined(x_SD)
      ? swigluMlp(x_SD, this.gateUp.weight, this.down.weight, isRead)
      : swigluLinear(this.gateUp.forward(x_SD), this.down.weight, isRead);
  }

  /** What goes into the last projection. */
  inner(x_SD: Tensor): Tensor {
    if (this.#isJoined(x_SD) && !isGradEnabled()) return swigluProduct(x_SD, this.gateUp.weight);
    return this.#gate(this.gateUp.forward(x_SD));
  }

  /** Whether one kernel makes the product of gate and up and what comes after it. */
  #isJoined(x_SD: Tensor): boolean {
    return this.#gate === swiglu && this.gateUp.isPlain && joinsActivation(x_SD, this.gateUp.weight);
  }

  weights(): LayerWeight[] {
    return [...this.gateUp.weights(), ...this.down.weights()];
  }

  get projections(): readonly Projection[] {
    return [this.gateUp, this.down];
  }
}
