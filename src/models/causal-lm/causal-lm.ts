/**
 * One causal decoder for all families: tokens in, hidden states out; logits and log-probabilities from those.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { empty, type TensorOptions } from "../../torch/create.ts";
import { createParameter, initialize, reinitialize } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import type { Generator } from "../../torch/random.ts";
import { recompute } from "../../torch/recompute.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { DecoderLayer, Norm } from "./decoder-layer.ts";
import { RotaryTable } from "./rotary.ts";
import type { TokenLayout } from "./token-layout.ts";

export class CausalLm extends Module {
  readonly config: CausalLmConfig;
  readonly embedding: Parameter;
  readonly layers: readonly DecoderLayer[];
  readonly norm: Norm;
  /** The output matrix [V, D]; the embedding itself where the model ties them. */
  readonly head: Parameter;
  readonly #rotary: RotaryTable;

  /** A model with memory for its weights and no values: see initialize, and loadCausalLm. */
  constructor(config: CausalLmConfig, place: TensorOptions = {}) {
    super();
    this.config = config;
    this.embedding = createParameter([config.vocabSize, config.width], empty, place);
    this.layers = Array.from({ length: config.numLayers }, () => new DecoderLayer(config, place));
    this.norm = new Norm(config.width, config.normEps, place);
    this.head = config.tieEmbeddings ? this.embedding : createParameter([config.vocabSize, config.width], empty, place);
    this.#rotary = new RotaryTable(config);
  }

  /**
   * The hidden state of every token before the output matrix, [S, D].
   *
   * With `recompute`, a layer keeps only its input and computes the rest again in the backward pass: about a third
   * more time for a fraction of the memory. The backward pass must then run in the scope of the forward pass, since it
   * needs the layout again.
   */
  forward(ids_S: Tensor, layout: TokenLayout, options: { readonly recompute?: boolean } = {}): Tensor {
    expectTokens(ids_S, layout);
    let x_SD = ops.embedding(this.embedding, ids_S);
    const rotation = noGrad(() => this.#rotary.rotationAt(layout.positions_S, layout.maxPosition));
    this.layers.forEach((layer, i) => {
      const before_SD = x_SD;
      const run = (x: Tensor) => tensorScope(() => layer.forward(x, i, layout, rotation));
      x_SD = options.recompute === true ? recompute(run, x_SD, layer.trainableParameters()) : run(x_SD);
      before_SD.dispose();
    });
    return this.norm.forward(x_SD);
  }

  /** Scores of the next token, [S, V]. For many tokens prefer tokenLogprobs, which never holds them all. */
  logits(hidden_SD: Tensor): Tensor {
    return ops.linear(hidden_SD, this.head);
  }

  /** Fresh random weights: normal with the config's range; norms are one and biases zero. One seed, one model, on any device. */
  initialize(generator: Generator): this {
    const normal = initialize.normal(0, this.config.initializerRange);
    for (const [path, parameter] of this.namedParameters()) {
      const isMatrix = parameter.shape.length >= 2;
      reinitialize(
        parameter,
        isMatrix ? normal : path.endsWith("bias") ? initialize.zeros : initialize.ones,
        generator,
      );
    }
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#rotary.dispose();
  }
}

function expectTokens(ids_S: Tensor, { numTokens }: TokenLayout): void {
  const { shape } = ids_S;
  if (shape.length === 1 && shape[0] === numTokens) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `ids has shape [${shape.join(", ")}] but the layout has ${numTokens} tokens. ids must be [${numTokens}], row after row.`,
  );
}

const ops = {
  embedding: op("aten::embedding"),
  linear: op("aten::linear"),
} as const;
