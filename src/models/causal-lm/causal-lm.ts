/**
 * The causal decoder of every family: tokens in, hidden states out; scores of the next token from those.
 *
 * It knows no family. What sets families apart are the features of decoder-features.ts; a family's file turns them on, and the modules
 * compute them. A feature that a fast path elsewhere does not know makes that path step aside: see usedFeatures.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { noGrad } from "../../torch/autograd.ts";
import { empty, type TensorOptions, tensor } from "../../torch/create.ts";
import { rangeOf } from "../../torch/distributed/collective.ts";
import { allRows, ownRows, sumOver } from "../../torch/distributed/collective-functions.ts";
import type { Device } from "../../torch/dtype.ts";
import { createParameter, initialize, reinitialize } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import type { RMSNorm } from "../../torch/nn/rms-norm.ts";
import type { Generator } from "../../torch/random.ts";
import { isRepeating } from "../../torch/recompute.ts";
import { rowsAt } from "../../torch/rows-at.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { Attention } from "./attention.ts";
import type { CausalLmConfig } from "./config.ts";
import type { DecoderFeatures, LayerWeight } from "./decoder-features.ts";
import { createNorm, normedStream, optionalNorm } from "./decoder-norm.ts";
import { Experts } from "./experts.ts";
import { GatedDeltaNet } from "./gated-delta-net.ts";
import { type LayerRunner, residentLayers } from "./layer-runner.ts";
import { Mlp } from "./mlp.ts";
import { type ModelSpread, splitProblem, wholeModel } from "./model-spread.ts";
import type { Projection } from "./projection.ts";
import { ModelRotary, type Rotations } from "./rotary.ts";
import type { TokenLayout } from "./token-layout.ts";
import { softCapped, tokenScores } from "./token-scores.ts";

export class CausalLm extends Module {
  readonly config: CausalLmConfig;
  readonly embedding: Parameter;
  readonly layers: readonly DecoderLayer[];
  readonly norm: RMSNorm;
  /** The output matrix [V, D]; the embedding itself where the model ties them. */
  readonly head: Parameter;
  readonly spread: ModelSpread;
  /** The layers that are here, where ranks have some each. */
  readonly own: { readonly start: number; readonly length: number };
  /** How the layers are run. Whoever keeps their weights elsewhere sets another one. */
  runner: LayerRunner = residentLayers;
  readonly #rotary: ModelRotary;
  /** A parameter that is here. */
  readonly #anchor: Parameter;

  /**
   * A model with memory for its weights and no values: see initialize, and loadCausalLm. Of one that is spread over ranks, this rank's part:
   * its heads, its share of every MLP, and its rows of the embedding and the output matrix.
   */
  constructor(config: CausalLmConfig, place: TensorOptions = {}, spread = wholeModel) {
    super();
    const { tensor: ranks, context, expert, stages } = spread;
    const { numLayers, tieEmbeddings } = config;
    const counts = { tensor: ranks.count, context: context.count, expert: expert.count, pipeline: stages.count };
    const problem = splitProblem(config, counts);
    if (problem !== null) throw new RerollError("INVALID_CONFIG", problem);
    const numRows = rangeOf(config.vocabSize, ranks.index, ranks.count).length;
    this.config = config;
    this.spread = spread;
    // What other stages have is a shape here, and no memory.
    const placeIf = (isHere: boolean) => (isHere ? place : { ...place, device: "meta" });
    this.own = rangeOf(numLayers, stages.ranks.index, stages.count);
    const isOwn = (layer: number) => layer >= this.own.start && layer < this.own.start + this.own.length;
    const hasEmbedding = stages.isFirst || (tieEmbeddings && stages.isLast);
    this.embedding = createParameter([numRows, config.width], empty, placeIf(hasEmbedding));
    this.layers = Array.from({ length: numLayers }, (_, i) => new DecoderLayer(config, i, placeIf(isOwn(i)), spread));
    this.norm = createNorm(config, config.width, placeIf(stages.isLast));
    this.head = tieEmbeddings
      ? this.embedding
      : createParameter([numRows, config.width], empty, placeIf(stages.isLast));
    this.embedding.isAtBothEnds = tieEmbeddings && stages.count > 1;
    for (const matrix of [this.embedding, this.head])
      if (ranks.count > 1) matrix.shard = { ranks, dim: 0, sizes: [config.vocabSize] };
    this.#rotary = new ModelRotary(config);
    this.#anchor = hasEmbedding ? this.embedding : this.layers[this.own.start]!.parameters()[0]!;
  }

  /**
   * The hidden state of every token before the output matrix, [S, D]. Of several stages the last one has it; the others give what they
   * handed on, of their own tokens.
   *
   * With `recompute`, a layer keeps only its input and computes the rest again in the backward pass: about a third
   * more time for a fraction of the memory. The backward pass must then run in the scope of the forward pass, since it
   * needs the layout again.
   */
  forward(ids_S: Tensor, layout: TokenLayout, options: { readonly recompute?: boolean } = {}): Tensor {
    expectTokens(ids_S, layout);
    const { context, stages } = this.spread;
    this.runner.begin();
    const first_SD = stages.isFirst ? this.embed(ownRows(context, ids_S)) : this.#taken(layout.numTokens);
    let stream: Stream = { x_SD: first_SD, made_SD: null };
    const rotations = noGrad(() => this.#rotary.rotationsAt(layout.positions_S, layout.maxPosition));
    const { start, length } = this.own;
    // Whoever keeps weights elsewhere, or computes layers again, has one tensor between two of them.
    const isPlain = this.runner === residentLayers && options.recompute !== true;
    this.layers.slice(start, start + length).forEach((layer, offset) => {
      const before = stream;
      const i = start + offset;
      const advance = (from: Stream) => tensorScope(() => layer.advance(from, i, layout, rotations));
      if (isPlain) {
        stream = advance(before);
      } else {
        const run = (x_SD: Tensor) => tensorScope(() => summed(advance({ x_SD, made_SD: null })));
        const parameters = () => layer.trainableParameters();
        stream = { x_SD: this.runner.run(i, run, before.x_SD, { parameters, ...options }), made_SD: null };
      }
      before.made_SD?.dispose();
      if (stages.isFirst || offset > 0) before.x_SD.dispose();
    });
    if (!stages.isLast) return stages.hand(summed(stream));
    return allRows(context, normedStream(this.norm, stream.x_SD, stream.made_SD).normed, layout.numTokens);
  }

  /** What the stage before made of this rank's tokens. */
  #taken(numTokens: number): Tensor {
    const { context, stages } = this.spread;
    const { length } = rangeOf(numTokens, context.index, context.count);
    return stages.take([length, this.config.width], { dtype: this.embedding.dtype, device: this.device });
  }

  /** Where it computes. */
  get device(): Device {
    return this.#anchor.device;
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
    if (ranks.count === 1) return rowsAt(this.embedding, ids_S);
    const { start, length } = rangeOf(this.config.vocabSize, ranks.index, ranks.count);
    const places_S = ids_S.sub(start);
    const isHere_S = places_S.ge(0).logicalAnd(places_S.lt(length));
    const found_SD = rowsAt(this.embedding, places_S.clamp(0, length - 1));
    return sumOver(ranks, found_SD.mul(isHere_S.unsqueeze(1).to(found_SD.dtype)));
  }

  /** What scores of the next token are bent to stay within; null for nothing. */
  get softCap(): number | null {
    return this.config.features.scoreSoftCap;
  }

  /** Scores of the next token, [S, V]. For many tokens prefer tokenLogprobs, which never holds them all. */
  logits(hidden_SD: Tensor): Tensor {
    return softCapped(tokenScores(hidden_SD, this.head), this.softCap);
  }

  /** Fresh random weights: normal with the config's range; norms change nothing and biases are zero. One seed, one model, on any device. */
  initialize(generator: Generator): this {
    const normal = initialize.normal(0, this.config.initializerRange);
    for (const [path, parameter] of this.namedParameters()) {
      const isMatrix = parameter.shape.length >= 2 && !path.endsWith("Bias");
      reinitialize(parameter, isMatrix ? normal : vectorStart(path, this.config.features), generator);
    }
    return this;
  }

  override dispose(): void {
    super.dispose();
    this.#rotary.dispose();
  }
}

/** Where a vector starts that learns: norms change nothing, and biases, sinks and the logarithm of decays are 0. */
function vectorStart(path: string, { hasOffsetNorms }: DecoderFeatures): ReturnType<typeof initialize.normal> {
  if (/norm\.weight$/i.test(path)) return hasOffsetNorms && !isLinearNorm(path) ? initialize.zeros : initialize.ones;
  return initialize.zeros;
}

/** The norm within linear attention has no offset. */
function isLinearNorm(path: string): boolean {
  return path.endsWith("attention.norm.weight");
}

/** The residual stream between two layers, and what the first of them made, if that is still to be added: the norm of the next one adds it on the way. */
interface Stream {
  readonly x_SD: Tensor;
  readonly made_SD: Tensor | null;
}

function summed({ x_SD, made_SD }: Stream): Tensor {
  return made_SD === null ? x_SD : x_SD.add(made_SD);
}

/** One layer of the decoder: attention and MLP, each around a normalized copy of the residual stream. */
export class DecoderLayer extends Module {
  readonly inputNorm: RMSNorm | null;
  readonly attention: Attention | GatedDeltaNet;
  readonly attentionOutputNorm: RMSNorm | null;
  /** The norm before the MLP. */
  readonly postAttentionNorm: RMSNorm | null;
  readonly mlp: Mlp | Experts;
  readonly mlpOutputNorm: RMSNorm | null;

  constructor(config: CausalLmConfig, index: number, place: TensorOptions, spread: ModelSpread) {
    super();
    const { tensor: ranks } = spread;
    const { experts, linearAttention, hasOutputNorms, hasBareInputs } = config.features;
    const norm = (isThere: boolean) => (isThere ? createNorm(config, config.width, place) : null);
    this.inputNorm = norm(!hasBareInputs);
    this.attention =
      linearAttention?.layers[index] === true
        ? new GatedDeltaNet(config, linearAttention, place)
        : new Attention(config, index, place, spread);
    this.attentionOutputNorm = norm(hasOutputNorms);
    this.postAttentionNorm = norm(!hasBareInputs);
    this.mlp = experts === null ? plainMlp(config, place, ranks) : new Experts(config.width, experts, place, spread);
    this.mlpOutputNorm = norm(hasOutputNorms);
  }

  advance({ x_SD, made_SD }: Stream, layer: number, layout: TokenLayout, rotations: Rotations): Stream {
    // Scopes free at once what the graph does not keep; without a graph that is everything but the result.
    const attended = tensorScope(() => {
      const { sum, normed } = normedStream(this.inputNorm, x_SD, made_SD);
      const mixed_SD = this.attention.forward(normed, layer, layout, rotations);
      return normedStream(this.postAttentionNorm, sum, this.attentionOutputNorm?.forward(mixed_SD) ?? mixed_SD);
    });
    const made = tensorScope(() => {
      const made_SD = this.#made(attended.normed);
      return this.mlpOutputNorm?.forward(made_SD) ?? made_SD;
    });
    return { x_SD: attended.sum, made_SD: made };
  }

  #made(normed_SD: Tensor): Tensor {
    const { mlp, mlpOutputNorm } = this;
    return mlp instanceof Mlp
      ? mlp.forward(normed_SD, mlpOutputNorm !== null || !isRepeating())
      : mlp.forward(normed_SD);
  }

  /** Every weight of the layer, in the order in which checkpoints are written. */
  weights(): LayerWeight[] {
    return [
      ...optionalNorm("inputNorm", this.inputNorm),
      ...this.attention.weights(),
      ...optionalNorm("attentionOutputNorm", this.attentionOutputNorm),
      ...optionalNorm("postAttentionNorm", this.postAttentionNorm),
      ...this.mlp.weights(),
      ...optionalNorm("mlpOutputNorm", this.mlpOutputNorm),
    ];
  }

  /** The linear maps that LoRA can adapt. */
  get projections(): readonly Projection[] {
    return [...this.attention.projections, ...this.mlp.projections];
  }
}

function plainMlp(
  { width, mlpWidth, features }: CausalLmConfig,
  place: TensorOptions,
  ranks: ModelSpread["tensor"],
): Mlp {
  const { hasMlpBias: hasBias, hasGeluGate, hasJointGateUp } = features;
  const gateUp = hasJointGateUp ? (["gateUp"] as const) : (["gate", "up"] as const);
  return new Mlp(width, { innerWidth: mlpWidth, hasBias, hasGeluGate, gateUp, down: "down" }, place, ranks);
}

function expectTokens(ids_S: Tensor, { numTokens }: TokenLayout): void {
  const { shape } = ids_S;
  if (shape.length === 1 && shape[0] === numTokens) return;
  throw new RerollError(
    "SHAPE_MISMATCH",
    `ids has shape [${shape.join(", ")}] but the layout has ${numTokens} tokens. ids must be [${numTokens}], row after row.`,
  );
}
