/**
 * The causal decoder of every family: tokens in, hidden states out; scores of the next token from those.
 *
 * It knows no family. What sets families apart are the features declared first; a family's file turns them on, and the
 * modules below compute them. A feature that a fast path elsewhere does not know makes that path step aside: see usedFeatures.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { empty, type TensorOptions, tensor } from "../../torch/create.ts";
import { type Collective, rangeOf } from "../../torch/distributed/collective.ts";
import { allRows, headsOf, ownRows, rowsOf, sumOver } from "../../torch/distributed/collective-functions.ts";
import { geglu, swiglu } from "../../torch/fused.ts";
import { createParameter, initialize, reinitialize } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { op } from "../../torch/operator.ts";
import type { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { CausalLmConfig } from "./config.ts";
import { Experts } from "./experts.ts";
import { type LayerRunner, residentLayers } from "./layer-runner.ts";
import { evenShare, type ModelSpread, wholeModel } from "./model-spread.ts";
import { Projection } from "./projection.ts";
import { RotaryTable, type Rotation } from "./rotary.ts";
import type { Heads, TokenLayout } from "./token-layout.ts";
import { tokenScores } from "./token-scores.ts";

/**
 * What a decoder computes beyond the plain one, which is RMSNorm, rotary attention over all tokens before, and a SiLU-gated MLP.
 * False and null mean off, so that a feature is in use exactly when its value is neither.
 */
export interface DecoderFeatures {
  /** Biases on the projections of query, key and value. */
  readonly hasQkvBias: boolean;
  /** A bias on the output projection of attention. */
  readonly hasOutputBias: boolean;
  /** Biases on the projections of the MLP. */
  readonly hasMlpBias: boolean;
  /** RMSNorm on every query and key head. */
  readonly hasHeadNorm: boolean;
  /** Tokens see at most this many positions back, themselves included. */
  readonly slidingWindow: number | null;
  /** For each layer, whether it sees everything where the others have the sliding window. */
  readonly fullLayers: readonly boolean[] | null;
  /** The base of the unscaled rotation in layers with the sliding window; the others rotate as the config says. */
  readonly localRopeTheta: number | null;
  /** The factor on attention scores, where it is not 1 / sqrt(headSize). */
  readonly attentionScale: number | null;
  /** The factor on embeddings as they enter the first layer. */
  readonly embeddingScale: number | null;
  /** Norms multiply by 1 + weight. */
  readonly hasOffsetNorms: boolean;
  /** Norms of what attention and MLP give, before it is added to the residual stream. */
  readonly hasOutputNorms: boolean;
  /** GELU in its tanh form gates the MLP, in place of SiLU. */
  readonly hasGeluGate: boolean;
  /** A mixture of experts in place of the MLP. */
  readonly experts: ExpertsConfig | null;
}

/** The shape of a mixture of experts. */
export interface ExpertsConfig {
  readonly numExperts: number;
  /** The number of experts that each token is sent through. */
  readonly numActive: number;
  /** The inner width of one expert. */
  readonly width: number;
  /** Whether the weights of a token's experts are scaled to sum to 1. */
  readonly normalizeWeights: boolean;
}

/** Every feature off. */
export const plainFeatures: DecoderFeatures = {
  hasQkvBias: false,
  hasOutputBias: false,
  hasMlpBias: false,
  hasHeadNorm: false,
  slidingWindow: null,
  fullLayers: null,
  localRopeTheta: null,
  attentionScale: null,
  embeddingScale: null,
  hasOffsetNorms: false,
  hasOutputNorms: false,
  hasGeluGate: false,
  experts: null,
};

/** The names of the features that are in use. A path that does not know all of them must not run the model. */
export function usedFeatures(features: DecoderFeatures): string[] {
  return Object.entries(features).flatMap(([name, value]) => (value === false || value === null ? [] : [name]));
}

/** Weights of the whole model, as families name them. */
export type ModelPart = "embedding" | "norm" | "head";

/** Modules of a layer that checkpoints store under a name of their own. */
export type LayerPart =
  | "inputNorm"
  | "query"
  | "key"
  | "value"
  | "output"
  | "queryNorm"
  | "keyNorm"
  | "attentionOutputNorm"
  | "postAttentionNorm"
  | "mlpOutputNorm"
  | "gate"
  | "up"
  | "down"
  | "router"
  | "expertGate"
  | "expertUp"
  | "expertDown";

/** A weight of a layer as checkpoints store it: part of a parameter. */
export interface LayerWeight {
  readonly part: LayerPart;
  readonly kind: "weight" | "bias";
  /** The expert that the weight belongs to, for the parts of experts. */
  readonly expert?: number;
  readonly parameter: Parameter;
  /** The part of the parameter, or of anything of its shape such as its gradient. */
  readonly viewOf: (whole: Tensor) => Tensor;
}

export class CausalLm extends Module {
  readonly config: CausalLmConfig;
  readonly embedding: Parameter;
  readonly layers: readonly DecoderLayer[];
  readonly norm: RMSNorm;
  /** The output matrix [V, D]; the embedding itself where the model ties them. */
  readonly head: Parameter;
  readonly spread: ModelSpread;
  /** How the layers are run. Whoever keeps their weights elsewhere sets another one. */
  runner: LayerRunner = residentLayers;
  readonly #rotary: RotaryTable;
  /** The rotation of layers with the sliding window, where it is another one. */
  readonly #localRotary: RotaryTable | null;

  /**
   * A model with memory for its weights and no values: see initialize, and loadCausalLm. Of one that is spread over ranks, this rank's part:
   * its heads, its share of every MLP, and its rows of the embedding and the output matrix.
   */
  constructor(config: CausalLmConfig, place: TensorOptions = {}, spread = wholeModel) {
    super();
    const { tensor: ranks } = spread;
    const numRows = rangeOf(config.vocabSize, ranks.index, ranks.count).length;
    this.config = config;
    this.spread = spread;
    this.embedding = createParameter([numRows, config.width], empty, place);
    this.layers = Array.from({ length: config.numLayers }, (_, i) => new DecoderLayer(config, i, place, spread));
    this.norm = createNorm(config, config.width, place);
    this.head = config.tieEmbeddings ? this.embedding : createParameter([numRows, config.width], empty, place);
    for (const matrix of [this.embedding, this.head])
      if (ranks.count > 1) matrix.shard = { ranks, dim: 0, sizes: [config.vocabSize] };
    this.#rotary = new RotaryTable(config);
    const { localRopeTheta } = config.features;
    const local = { headSize: config.headSize, ropeScaling: { type: "default" } } as const;
    this.#localRotary = localRopeTheta === null ? null : new RotaryTable({ ...local, ropeTheta: localRopeTheta });
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
    const { context } = this.spread;
    this.runner.begin();
    let x_SD = this.embed(ownRows(context, ids_S));
    const rotationOf = (table: RotaryTable) => noGrad(() => table.rotationAt(layout.positions_S, layout.maxPosition));
    const rotation = rotationOf(this.#rotary);
    const localRotation = this.#localRotary === null ? rotation : rotationOf(this.#localRotary);
    this.layers.forEach((layer, i) => {
      const before_SD = x_SD;
      const own = layer.attention.window === null ? rotation : localRotation;
      const run = (x: Tensor) => tensorScope(() => layer.forward(x, i, layout, own));
      x_SD = this.runner.run(i, run, x_SD, { parameters: () => layer.trainableParameters(), ...options });
      before_SD.dispose();
    });
    return allRows(context, this.norm.forward(x_SD), layout.numTokens);
  }

  /** The vectors of these tokens that enter the first layer, [S, D]. */
  embed(ids_S: Tensor): Tensor {
    const x_SD = this.#look(ids_S);
    const { embeddingScale } = this.config.features;
    // Rounded to the type of the weights first, as models in 16 bits were trained with it.
    return embeddingScale === null ? x_SD : x_SD.mul(tensor(embeddingScale, { dtype: x_SD.dtype }));
  }

  /** The rows of the embedding, each from the rank that has it. */
  #look(ids_S: Tensor): Tensor {
    const { tensor: ranks } = this.spread;
    if (ranks.count === 1) return ops.embedding(this.embedding, ids_S);
    const { start, length } = rangeOf(this.config.vocabSize, ranks.index, ranks.count);
    const places_S = ids_S.sub(start);
    const isHere_S = places_S.ge(0).logicalAnd(places_S.lt(length));
    const found_SD = ops.embedding(this.embedding, places_S.clamp(0, length - 1));
    return sumOver(ranks, found_SD.mul(isHere_S.unsqueeze(1).to(found_SD.dtype)));
  }

  /** Scores of the next token, [S, V]. For many tokens prefer tokenLogprobs, which never holds them all. */
  logits(hidden_SD: Tensor): Tensor {
    return tokenScores(hidden_SD, this.head);
  }

  /** Fresh random weights: normal with the config's range; norms change nothing and biases are zero. One seed, one model, on any device. */
  initialize(generator: Generator): this {
    const normal = initialize.normal(0, this.config.initializerRange);
    const neutralNorm = this.config.features.hasOffsetNorms ? initialize.zeros : initialize.ones;
    for (const [path, parameter] of this.namedParameters()) {
      const isMatrix = parameter.shape.length >= 2;
      reinitialize(parameter, isMatrix ? normal : path.endsWith("bias") ? initialize.zeros : neutralNorm, generator);
    }
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#rotary.dispose();
    this.#localRotary?.dispose();
  }
}

/** One layer of the decoder: attention and MLP, each around a normalized copy of the residual stream. */
class DecoderLayer extends Module {
  readonly inputNorm: RMSNorm;
  readonly attention: Attention;
  readonly attentionOutputNorm: RMSNorm | null;
  /** The norm before the MLP. */
  readonly postAttentionNorm: RMSNorm;
  readonly mlp: Mlp | Experts;
  readonly mlpOutputNorm: RMSNorm | null;

  constructor(config: CausalLmConfig, index: number, place: TensorOptions, spread: ModelSpread) {
    super();
    const { experts, hasOutputNorms } = config.features;
    const { tensor: ranks } = spread;
    const norm = () => createNorm(config, config.width, place);
    this.inputNorm = norm();
    this.attention = new Attention(config, index, place, spread);
    this.attentionOutputNorm = hasOutputNorms ? norm() : null;
    this.postAttentionNorm = norm();
    this.mlp = experts === null ? new Mlp(config, place, ranks) : new Experts(config.width, experts, place, ranks);
    this.mlpOutputNorm = hasOutputNorms ? norm() : null;
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout, rotation: Rotation): Tensor {
    // Scopes free at once what the graph does not keep; without a graph that is everything but the result.
    const attended_SD = tensorScope(() => {
      const mixed_SD = this.attention.forward(this.inputNorm.forward(x_SD), layer, layout, rotation);
      return x_SD.add(this.attentionOutputNorm?.forward(mixed_SD) ?? mixed_SD);
    });
    return tensorScope(() => {
      const made_SD = this.mlp.forward(this.postAttentionNorm.forward(attended_SD));
      return attended_SD.add(this.mlpOutputNorm?.forward(made_SD) ?? made_SD);
    });
  }

  /** Every weight of the layer, in the order in which checkpoints are written. */
  weights(): LayerWeight[] {
    return [
      normWeight("inputNorm", this.inputNorm),
      ...this.attention.weights(),
      ...optionalNorm("attentionOutputNorm", this.attentionOutputNorm),
      normWeight("postAttentionNorm", this.postAttentionNorm),
      ...this.mlp.weights(),
      ...optionalNorm("mlpOutputNorm", this.mlpOutputNorm),
    ];
  }

  /** The linear maps that LoRA can adapt. */
  get projections(): readonly Projection[] {
    return [this.attention.qkv, this.attention.output, ...this.mlp.projections];
  }
}

export class Attention extends Module {
  readonly qkv: Projection;
  readonly output: Projection;
  readonly queryNorm: RMSNorm | null;
  readonly keyNorm: RMSNorm | null;
  /** How far back tokens see in this layer; null for as far as there is. */
  readonly window: number | null;
  readonly #config: CausalLmConfig;
  readonly #context: Collective;
  /** The heads of queries that this rank has, and its heads of keys and values. */
  readonly #numHeads: number;
  readonly #numKeyValueHeads: number;
  /** How often a head of keys and values is repeated before the ranks that split tokens deal them out. */
  readonly #numRepeats: number;

  constructor(config: CausalLmConfig, index: number, place: TensorOptions, { tensor: ranks, context } = wholeModel) {
    super();
    const { width, headSize, features } = config;
    this.#numHeads = evenShare("its heads", config.numHeads, ranks.count);
    this.#numKeyValueHeads = evenShare("its heads of keys and values", config.numKeyValueHeads, ranks.count);
    this.#numRepeats = repeatsOf(this.#numHeads, this.#numKeyValueHeads, context.count);
    const parts = [
      { name: "query", width: this.#numHeads * headSize },
      { name: "key", width: this.#numKeyValueHeads * headSize },
      { name: "value", width: this.#numKeyValueHeads * headSize },
    ] as const;
    this.#config = config;
    this.#context = context;
    this.qkv = new Projection(width, parts, features.hasQkvBias, place, { output: ranks });
    const output = [{ name: "output", width }] as const;
    this.output = new Projection(this.#numHeads * headSize, output, features.hasOutputBias, place, { input: ranks });
    this.queryNorm = features.hasHeadNorm ? createNorm(config, headSize, place) : null;
    this.keyNorm = features.hasHeadNorm ? createNorm(config, headSize, place) : null;
    this.window = features.fullLayers?.[index] === true ? null : features.slidingWindow;
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout, rotation: Rotation): Tensor {
    const scale = this.#config.features.attentionScale;
    const { q_SHK, k_SGK, v_SGK } = this.heads(x_SD);
    const gather = (own: Tensor) => headsOf(this.#context, own, layout.numTokens);
    const repeat = (own: Tensor) => (this.#numRepeats === 1 ? own : own.repeatInterleave(this.#numRepeats, 1));
    const heads = { q_SHK: gather(q_SHK), k_SGK: gather(repeat(k_SGK)), v_SGK: gather(repeat(v_SGK)) };
    const mixed_SHK = layout.attend(layer, heads, rotation, { window: this.window, scale });
    const own_SHK = rowsOf(this.#context, mixed_SHK, layout.numTokens);
    return this.output.forward(own_SHK.reshape(x_SD.size(0), -1));
  }

  /** Queries, keys and values, before rotation. */
  heads(x_SD: Tensor): Heads {
    const [H, G, K] = [this.#numHeads, this.#numKeyValueHeads, this.#config.headSize];
    const [q, k, v] = this.qkv
      .forward(x_SD)
      .view(x_SD.size(0), H + 2 * G, K)
      .splitSizes([H, G, G], 1) as [Tensor, Tensor, Tensor];
    return {
      q_SHK: this.queryNorm?.forward(q) ?? q,
      k_SGK: this.keyNorm?.forward(k) ?? k,
      v_SGK: v,
    };
  }

  weights(): LayerWeight[] {
    return [
      ...this.qkv.weights(),
      ...this.output.weights(),
      ...optionalNorm("queryNorm", this.queryNorm),
      ...optionalNorm("keyNorm", this.keyNorm),
    ];
  }
}

export class Mlp extends Module {
  readonly gateUp: Projection;
  readonly down: Projection;
  readonly #gate: (gateUp: Tensor) => Tensor;

  constructor(
    { width, mlpWidth, features: { hasMlpBias, hasGeluGate } }: CausalLmConfig,
    place: TensorOptions,
    ranks = wholeModel.tensor,
  ) {
    super();
    this.#gate = hasGeluGate ? geglu : swiglu;
    const own = evenShare("the width of its MLPs", mlpWidth, ranks.count);
    const parts = [
      { name: "gate", width: own },
      { name: "up", width: own },
    ] as const;
    this.gateUp = new Projection(width, parts, hasMlpBias, place, { output: ranks });
    this.down = new Projection(own, [{ name: "down", width }], hasMlpBias, place, { input: ranks });
  }

  forward(x_SD: Tensor): Tensor {
    return this.down.forward(this.#gate(this.gateUp.forward(x_SD)));
  }

  weights(): LayerWeight[] {
    return [...this.gateUp.weights(), ...this.down.weights()];
  }

  get projections(): readonly Projection[] {
    return [this.gateUp, this.down];
  }
}

function createNorm({ normEps, features }: CausalLmConfig, width: number, place: TensorOptions): RMSNorm {
  return new RMSNorm(width, { eps: normEps, offset: features.hasOffsetNorms ? 1 : 0, ...place });
}

function optionalNorm(part: LayerPart, norm: RMSNorm | null): LayerWeight[] {
  return norm === null ? [] : [normWeight(part, norm)];
}

function normWeight(part: LayerPart, { weight }: RMSNorm): LayerWeight {
  return { part, kind: "weight", parameter: weight, viewOf: (whole) => whole };
}

/** Each of `count` ranks gets as many heads, of queries and of keys, and those that belong together. */
function repeatsOf(numHeads: number, numKeyValueHeads: number, count: number): number {
  const found = Array.from({ length: count }, (_, i) => i + 1).find(
    (times) => (numKeyValueHeads * times) % count === 0,
  )!;
  evenShare("its heads", numHeads, numKeyValueHeads * found);
  return found;
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
