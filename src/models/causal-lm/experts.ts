/** A mixture of experts: a router sends each token through a few of many small MLPs. */
import { cat, empty, type TensorOptions, tensor, zeros } from "../../torch/create.ts";
import { type Collective, rangeOf } from "../../torch/distributed/collective.ts";
import { sumOver, tradeRows } from "../../torch/distributed/collective-functions.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import { linear, linearOfFew } from "../../torch/steady-products.ts";
import { swiglu } from "../../torch/swiglu.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type ExpertsConfig, type LayerPart, type LayerWeight, wholeWeight } from "./decoder-features.ts";
import { Mlp } from "./mlp.ts";
import { evenShare, type ModelSpread, splitAlong, wholeModel } from "./model-spread.ts";
import { Projection } from "./projection.ts";

/** The weights of all experts lie in one tensor. Shapes: E experts of a token. */
export class Experts extends Module {
  readonly router: Parameter;
  readonly gateUp: Parameter;
  readonly down: Parameter;
  readonly routerBias: Parameter | null;
  readonly gateUpBias: Parameter | null;
  readonly downBias: Parameter | null;
  readonly shared: SharedExpert | null;
  readonly #config: ExpertsConfig;
  /** The width of this rank's part of every expert. */
  readonly #width: number;
  readonly #ranks: Collective;
  /** The ranks that have experts, whether all have the same tokens, and which experts are here. */
  readonly #holders: Collective;
  readonly #sharesTokens: boolean;
  readonly #here: { readonly start: number; readonly length: number };

  constructor(
    width: number,
    config: ExpertsConfig,
    place: TensorOptions,
    {
      tensor: splitters,
      expert,
      sharesTokens = false,
    }: Pick<ModelSpread, "tensor" | "expert" | "sharesTokens"> = wholeModel,
  ) {
    super();
    const { numExperts } = config;
    // Experts that are dealt out are whole.
    const ranks = expert.count > 1 ? wholeModel.tensor : splitters;
    this.#config = config;
    this.#ranks = ranks;
    this.#holders = expert;
    this.#sharesTokens = sharesTokens;
    this.#here = rangeOf(numExperts, expert.index, expert.count);
    this.#width = evenShare(config.width, ranks.count);
    this.router = createParameter([numExperts, width], empty, place);
    this.gateUp = createParameter([this.#here.length, 2 * this.#width, width], empty, place);
    this.down = createParameter([this.#here.length, width, this.#width], empty, place);
    const dealt = expert.count === 1 ? null : { ranks: expert, dim: 0, sizes: [numExperts] };
    this.gateUp.shard = dealt ?? splitAlong(1, [this.#width, this.#width], ranks);
    this.down.shard = dealt ?? splitAlong(2, [this.#width], ranks);
    const bias = (...shape: number[]) => (config.hasBias ? createParameter(shape, zeros, place) : null);
    this.routerBias = bias(config.numExperts);
    this.gateUpBias = bias(config.numExperts, 2 * config.width);
    this.downBias = bias(config.numExperts, width);
    this.shared = config.sharedWidth === null ? null : new SharedExpert(width, config.sharedWidth, place);
  }

  forward(x_SD: Tensor): Tensor {
    const { weights_SE, experts_SE } = this.#route(x_SD);
    const [S, E] = [x_SD.size(0), this.#config.numActive];
    // Tokens are grouped by expert with one sort, so that each expert is one product over its own tokens.
    const [, order] = experts_SE.flatten().sort();
    const counts = ops.bincount(experts_SE.flatten(), null, this.#config.numExperts).toArray();
    const sorted = x_SD.indexSelect(0, order.floorDivide(E));
    const [, rank] = order.sort();
    const made = this.#make(sorted, counts);
    return this.#mixed(x_SD, made.indexSelect(0, rank).view(S, E, x_SD.size(1)), weights_SE);
  }

  /**
   * What `forward` computes, in shapes that do not depend on which token goes where: nothing is read back from the device, so that it can
   * be recorded. Few tokens bring the weights of their experts along; with many, every expert sees every token.
   */
  forwardFixed(x_SD: Tensor): Tensor {
    const { weights_SE, experts_SE } = this.#route(x_SD);
    const [S, D] = x_SD.shape as [number, number];
    const { numActive: E, numExperts } = this.#config;
    if (S * E < numExperts) {
      const picked = experts_SE.flatten();
      const take = (weights: Tensor | null) => weights?.indexSelect(0, picked) ?? null;
      const made = this.#runStacked(
        x_SD
          .unsqueeze(1)
          .expand(S, E, D)
          .reshape(S * E, 1, D),
        take,
      );
      return this.#mixed(x_SD, made.view(S, E, D), weights_SE);
    }
    const made_NSD = this.#runStacked(x_SD.unsqueeze(0).expand(numExperts, S, D), (weights) => weights);
    const made_SED = made_NSD.transpose(0, 1).gather(1, experts_SE.unsqueeze(2).expand(S, E, D));
    return this.#mixed(x_SD, made_SED, weights_SE);
  }

  /** The router, then the weights of one expert after the other. */
  weights(): LayerWeight[] {
    const { numExperts, hasBias } = this.#config;
    const width = this.#width;
    const router = wholeWeight("router", this.router);
    if (hasBias) return [router, wholeWeight("router", this.routerBias!, "bias"), ...this.#stackedWeights()];
    const { start, length } = this.#here;
    const weight = (part: LayerPart, expert: number, parameter: Parameter, viewOf: LayerWeight["viewOf"]) => {
      const isElsewhere = expert < start || expert >= start + length;
      return { part, kind: "weight", expert, parameter, viewOf, ...(isElsewhere && { isElsewhere }) } as const;
    };
    // Of all experts, or of those that are here.
    const one = (stack: Tensor, e: number) => stack.select(0, stack.size(0) === numExperts ? e : e - start);
    const each = Array.from({ length: numExperts }, (_, e) => [
      weight("expertGate", e, this.gateUp, (whole) => one(whole, e).narrow(0, 0, width)),
      weight("expertUp", e, this.gateUp, (whole) => one(whole, e).narrow(0, width, width)),
      weight("expertDown", e, this.down, (whole) => one(whole, e)),
    ]);
    return [router, ...each.flat(), ...(this.shared?.weights() ?? [])];
  }

  /** The projections of the shared expert: the others are stacked in one tensor, which LoRA cannot adapt. */
  get projections(): readonly Projection[] {
    return this.shared?.projections ?? [];
  }

  /** The experts as checkpoints with biases store them: all in one, input before output. */
  #stackedWeights(): LayerWeight[] {
    const transposed = (part: LayerPart, parameter: Parameter): LayerWeight => ({
      part,
      kind: "bare",
      parameter,
      viewOf: (whole) => whole.transpose(1, 2),
    });
    return [
      transposed("expertGateUp", this.gateUp),
      wholeWeight("expertGateUpBias", this.gateUpBias!, "bare"),
      transposed("expertDown", this.down),
      wholeWeight("expertDownBias", this.downBias!, "bare"),
    ];
  }

  /** What the experts make of tokens that lie by expert. */
  #make(sorted: Tensor, counts: readonly number[]): Tensor {
    if (this.#holders.count === 1) return cat(this.#runExperts(sorted, counts));
    return this.#sharesTokens ? this.#runOwn(sorted, counts) : this.#sendToExperts(sorted, counts);
  }

  /** What the experts that are here make of their tokens, and zeros for those of the others: the ranks' results add up. */
  #runOwn(sorted: Tensor, counts: readonly number[]): Tensor {
    const { start, length } = this.#here;
    const own = counts.slice(start, start + length);
    const sum = (list: readonly number[]) => list.reduce((total, count) => total + count, 0);
    const [before, here] = [sum(counts.slice(0, start)), sum(own)];
    const { dtype, device } = sorted;
    const nothing = (numRows: number) => zeros([numRows, sorted.size(1)], { dtype, device });
    const made = this.#runExperts(sorted.narrow(0, before, here), own);
    return cat([nothing(before), ...made, nothing(sorted.size(0) - before - here)]);
  }

  /** The same where experts are on several ranks: tokens go to the rank of their expert, and what it made of them comes back. */
  #sendToExperts(sorted: Tensor, counts: readonly number[]): Tensor {
    const ranks = this.#holders;
    const { device } = sorted;
    const ranges = Array.from({ length: ranks.count }, (_, rank) => rangeOf(counts.length, rank, ranks.count));
    const sent = ranges.map(({ start, length }) => counts.slice(start, start + length));
    // By the rank that sends them, the tokens for each expert that is here.
    const received = tensorScope(() => {
      const told = sent.map((own) => tensor([...own], { dtype: "int64", device }));
      return ranks
        .swap(
          told,
          told.map(() => [this.#here.length]),
        )
        .map((one) => one.toArray());
    });
    const sum = (list: readonly number[]) => list.reduce((total, count) => total + count, 0);
    const [out, back] = [sent.map(sum), received.map(sum)];
    const arrived = tradeRows(ranks, sorted, out, back);
    // They lie by rank, and within that by expert; experts take them by expert.
    const byExpert = tensor(ordered(received), { dtype: "int64", device });
    const [, byRank] = byExpert.sort();
    const own = received[0]!.map((_, expert) => sum(received.map((of) => of[expert]!)));
    const made = this.#runExperts(arrived.indexSelect(0, byExpert), own);
    const all = made.length === 0 ? arrived : cat(made).indexSelect(0, byRank);
    return tradeRows(ranks, all, back, out);
  }

  /** Each expert on its own tokens; `sorted` holds the tokens of expert 0, then those of expert 1, and so on. */
  #runExperts(sorted: Tensor, counts: readonly number[]): Tensor[] {
    // Taken apart in one go: the backward pass of a single part is the size of the whole.
    const inputs = sorted.splitSizes(counts);
    const gateUps = ops.unbind(this.gateUp);
    const downs = ops.unbind(this.down);
    const gateUpBiases = this.gateUpBias === null ? [] : ops.unbind(this.gateUpBias);
    const downBiases = this.downBias === null ? [] : ops.unbind(this.downBias);
    return inputs
      .map((input, expert) => ({ input, expert }))
      .filter(({ expert }) => counts[expert] !== 0)
      .map(({ input, expert: e }) =>
        linearOfFew(this.#gate(linearOfFew(input, gateUps[e]!, gateUpBiases[e])), downs[e]!, downBiases[e]),
      );
  }

  /** One expert for each of N stacks of tokens, [N, X, D]; `take` gives the weights of those experts, in their order. */
  #runStacked(x_NXD: Tensor, take: (weights: Tensor | null) => Tensor | null): Tensor {
    const product = (x: Tensor, weights: Tensor, bias: Tensor | null) => {
      const y = x.bmm(take(weights)!.transpose(1, 2));
      return bias === null ? y : y.add(take(bias)!.unsqueeze(1));
    };
    const [N, X] = x_NXD.shape as [number, number];
    const inner = this.#gate(product(x_NXD, this.gateUp, this.gateUpBias).flatten(0, 1));
    return product(inner.view(N, X, -1), this.down, this.downBias);
  }

  /** What the experts of each token made, by their weights, and the shared one. */
  #mixed(x_SD: Tensor, made_SED: Tensor, weights_SE: Tensor): Tensor {
    const ranks = this.#sharesTokens && this.#holders.count > 1 ? this.#holders : this.#ranks;
    const mixed_SD = sumOver(ranks, made_SED.mul(weights_SE.unsqueeze(2)).sum(1));
    return this.shared === null ? mixed_SD : mixed_SD.add(this.shared.forward(x_SD));
  }

  #gate(gateUp: Tensor): Tensor {
    const { clampedGate } = this.#config;
    return clampedGate === null ? swiglu(gateUp) : clampedSwiglu(gateUp, clampedGate);
  }

  /** The experts of each token and their weights: softmax over all, the best few, scaled to sum to 1 if the model says so. */
  #route(x_SD: Tensor): { weights_SE: Tensor; experts_SE: Tensor } {
    const probabilities = linear(x_SD, this.router, this.routerBias).to("float32").softmax(-1);
    const [top, experts_SE] = probabilities.topk(this.#config.numActive);
    const scaled = this.#config.normalizeWeights ? top.div(top.sum(-1, true)) : top;
    return { weights_SE: scaled.to(x_SD.dtype), experts_SE };
  }
}

/** The places of rows that lie by rank and by expert, in the order by expert and by rank. */
function ordered(counts: readonly (readonly number[])[]): number[] {
  let place = 0;
  const starts = counts.map((of) =>
    of.map((count) => {
      place += count;
      return place - count;
    }),
  );
  const rows = (rank: number, expert: number) =>
    Array.from({ length: counts[rank]![expert]! }, (_, i) => starts[rank]![expert]! + i);
  return counts[0]!.flatMap((_, expert) => counts.flatMap((_, rank) => rows(rank, expert)));
}

/** An expert that sees every token, weighed by the sigmoid of a gate of its own. */
class SharedExpert extends Module {
  readonly mlp: Mlp;
  readonly weight: Projection;

  constructor(width: number, innerWidth: number, place: TensorOptions) {
    super();
    const names = { gateUp: ["sharedGate", "sharedUp"], down: "sharedDown" } as const;
    this.mlp = new Mlp(width, { innerWidth, hasBias: false, hasGeluGate: false, ...names }, place);
    this.weight = new Projection(width, [{ name: "sharedWeight", width: 1 }], false, place);
  }

  forward(x_SD: Tensor): Tensor {
    return this.mlp.forward(x_SD).mul(this.weight.forward(x_SD).sigmoid());
  }

  weights(): LayerWeight[] {
    return [...this.mlp.weights(), ...this.weight.weights()];
  }

  get projections(): readonly Projection[] {
    return [...this.mlp.projections, this.weight];
  }
}

/** g sigmoid(alpha g) (u + 1) for rows in which gate and up alternate, g at most the limit and u within it. */
function clampedSwiglu(gateUp: Tensor, { limit, alpha }: { readonly limit: number; readonly alpha: number }): Tensor {
  const pairs = gateUp.view(gateUp.size(0), -1, 2);
  const gate = ops.atMost(pairs.select(2, 0), limit);
  const up = pairs.select(2, 1).clamp(-limit, limit);
  return gate.mul(gate.mul(alpha).sigmoid()).mul(up.add(1));
}

const ops = {
  bincount: op("aten::bincount"),
  unbind: op("aten::unbind.int"),
  atMost: op("aten::clamp_max"),
} as const;
