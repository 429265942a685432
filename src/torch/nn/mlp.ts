/** A multi-layer perceptron: linear layers with an activation between them. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Tensor } from "../tensor.ts";
import { type ActivationName, activationOf } from "./activation.ts";
import type { InitializeOptions, Initializer } from "./initialize.ts";
import { Linear } from "./linear.ts";
import { Module } from "./module.ts";

/** The shape of an MLP, and how it starts. */
export interface MLPOptions extends InitializeOptions {
  /** The sizes of all layers, from input to output: [4, 64, 64, 2] has two hidden layers. */
  readonly widths: readonly number[];
  readonly activation: ActivationName;
  /** Default none: the last layer is linear. */
  readonly outputActivation?: ActivationName;
  /** Weights of the hidden layers. Default as in Linear; control policies use initialize.orthogonal(Math.SQRT2). */
  readonly initialWeight?: Initializer;
  /** Weight of the last layer. Default as the hidden ones; action heads start small, initialize.orthogonal(0.01). */
  readonly initialOutputWeight?: Initializer;
  /** Biases of all layers. Default as in Linear. */
  readonly initialBias?: Initializer;
}

/** x of [..., widths[0]] to [..., last width]. */
export class MLP extends Module {
  readonly layers: readonly Linear[];
  readonly activation: ActivationName;
  readonly outputActivation: ActivationName | null;

  constructor({ widths, activation, outputActivation, ...options }: MLPOptions) {
    super();
    expectWidths(widths);
    // Looked up here as well, so that a bad name fails when the network is built.
    activationOf(activation);
    this.activation = activation;
    this.outputActivation = outputActivation ?? null;
    const { initialOutputWeight, ...hidden } = options;
    const last = initialOutputWeight === undefined ? hidden : { ...hidden, initialWeight: initialOutputWeight };
    this.layers = widths
      .slice(1)
      .map((width, i) => new Linear(widths[i]!, width, i === widths.length - 2 ? last : hidden));
  }

  forward(input: Tensor): Tensor {
    const activate = activationOf(this.activation);
    const hidden = this.layers.slice(0, -1).reduce((x, layer) => activate(layer.forward(x)), input);
    const output = this.layers.at(-1)!.forward(hidden);
    return this.outputActivation === null ? output : activationOf(this.outputActivation)(output);
  }
}

function expectWidths(widths: readonly number[]): void {
  if (widths.length >= 2 && widths.every((width) => Number.isInteger(width) && width > 0)) return;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `widths must be two or more whole numbers above zero: got [${widths.join(", ")}]. ` +
      "The first is the size of the input, the last the size of the output.",
  );
}
