/** A mixture of experts: a router sends each token through a few of many small MLPs . */
import { cat, empty, type TensorOptions } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import { sumOver } from "../../torch/distributed/collective-functions.ts";
import { swiglu } from "../../torch/fused.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { ExpertsConfig, LayerPart, LayerWeight } from "./causal-lm.ts";
import { evenShare, splitAlong, wholeModel } from "./model-spread.ts";
import type { Projection } from "./projection.ts";

/** The weights of all experts lie in one tensor. Shapes: E experts of a token. */
export class Experts extends Module {
  readonly router: Parameter;
  readonly gateUp: Parameter;
  readonly down: Parameter;
  readonly #config: ExpertsConfig;
  /** The width of this rank's part of every expert. */
  readonly #width: number;
  readonly #ranks: Collective;

  constructor(width: number, config: ExpertsConfig, place: TensorOptions, ranks = wholeModel.tensor) {
    super();
    this.#config = config;
    this.#ranks = ranks;
    this.#width = evenShare("the width of its experts", config.width, ranks.count);
    this.router = createParameter([config.numExperts, width], empty, place);
    this.gateUp = createParameter([config.numExperts, 2 * this.#width, width], empty, place);
    this.down = createParameter([config.numExperts, width, this.#width], empty, place);
    this.gateUp.shard = splitAlong(1, [this.#width, this.#width], ranks);
    this.down.shard = splitAlong(2, [this.#width], ranks);
  }

  forward(x_SD: Tensor): Tensor {
    const { weights_SE, experts_SE } = this.#route(x_SD);
    const [S, E] = [x_SD.size(0), this.#config.numActive];
    // Tokens are grouped by expert with one sort, so that each expert is one product over its own tokens.
    const [, order] = experts_SE.flatten().sort();
    const counts = ops.bincount(experts_SE.flatten(), null, this.#config.numExperts).toArray();
    const sorted = x_SD.indexSelect(0, order.floorDivide(E));
    const [, rank] = order.sort();
    const made_SED = cat(this.#runExperts(sorted, counts)).indexSelect(0, rank).view(S, E, x_SD.size(1));
    return sumOver(this.#ranks, made_SED.mul(weights_SE.unsqueeze(2)).sum(1));
  }

  /** The router, then the weights of one expert after the other. */
  weights(): LayerWeight[] {
    const { numExperts } = this.#config;
    const width = this.#width;
    const all = (whole: Tensor) => whole;
    const weight = (part: LayerPart, expert: number, parameter: Parameter, viewOf: LayerWeight["viewOf"]) =>
      ({ part, kind: "weight", expert, parameter, viewOf }) as const;
    const each = Array.from({ length: numExperts }, (_, e) => [
      weight("expertGate", e, this.gateUp, (whole) => whole.select(0, e).narrow(0, 0, width)),
      weight("expertUp", e, this.gateUp, (whole) => whole.select(0, e).narrow(0, width, width)),
      weight("expertDown", e, this.down, (whole) => whole.select(0, e)),
    ]);
    return [{ part: "router", kind: "weight", parameter: this.router, viewOf: all }, ...each.flat()];
  }

  /** None: the experts are stacked in one tensor, which LoRA cannot adapt. */
  get projections(): readonly Projection[] {
    return [];
  }

  /** Each expert on its own tokens; `sorted` holds the tokens of expert 0, then those of expert 1, and so on. */
  #runExperts(sorted: Tensor, counts: readonly number[]): Tensor[] {
    // Taken apart in one go: the backward pass of a single part is the size of the whole.
    const inputs = sorted.splitSizes(counts);
    const gateUps = ops.unbind(this.gateUp);
    const downs = ops.unbind(this.down);
    return inputs
      .map((input, expert) => ({ input, expert }))
      .filter(({ expert }) => counts[expert] !== 0)
      .map(({ input, expert }) => ops.linear(swiglu(ops.linear(input, gateUps[expert]!)), downs[expert]!));
  }

  /** The experts of each token and their weights: softmax over all, the best few, scaled to sum to 1 if the model says so. */
  #route(x_SD: Tensor): { weights_SE: Tensor; experts_SE: Tensor } {
    const probabilities = ops.linear(x_SD, this.router).to("float32").softmax(-1);
    const [top, experts_SE] = probabilities.topk(this.#config.numActive);
    const scaled = this.#config.normalizeWeights ? top.div(top.sum(-1, true)) : top;
    return { weights_SE: scaled.to(x_SD.dtype), experts_SE };
  }
}

const ops = { linear: op("aten::linear"), bincount: op("aten::bincount"), unbind: op("aten::unbind.int") } as const;
