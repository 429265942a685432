/** Attention of one layer: queries, keys and values of each token, mixed as the layout says which tokens see which. */
import { cat, empty, type TensorOptions } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import { headsOf, rowsOf } from "../../torch/distributed/collective-functions.ts";
import { createParameter } from "../../torch/nn/initialize.ts";
import { Module, type Parameter } from "../../torch/nn/module.ts";
import type { RMSNorm } from "../../torch/nn/rms-norm.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { canTurn, turnedHeads } from "../../torch/turned-heads.ts";
import type { CausalLmConfig } from "./config.ts";
import { type LayerWeight, wholeWeight } from "./decoder-features.ts";
import { createNorm, optionalNorm } from "./decoder-norm.ts";
import { evenShare, repeatsOf, wholeModel } from "./model-spread.ts";
import { Projection } from "./projection.ts";
import type { Rotation, Rotations } from "./rotary.ts";
import type { AttentionKind, Heads, TokenLayout } from "./token-layout.ts";

/** Queries, keys and values, and the gate on what comes of them; null where the model has none. */
export interface GatedHeads extends Heads {
  readonly gate_SHK: Tensor | null;
}

export class Attention extends Module {
  readonly qkv: Projection;
  readonly output: Projection;
  readonly queryNorm: RMSNorm | null;
  readonly keyNorm: RMSNorm | null;
  readonly sinks: Parameter | null;
  /** How far back tokens see in this layer; null for as far as there is. */
  readonly window: number | null;
  /** The rotation of queries and keys in this layer. */
  readonly rotation: keyof Rotations | "none";
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
    const numHeads = evenShare(config.numHeads, ranks.count);
    const numKeyValueHeads = evenShare(config.numKeyValueHeads, ranks.count);
    this.#context = context;
    this.#numHeads = numHeads;
    this.#numKeyValueHeads = numKeyValueHeads;
    this.#numRepeats = repeatsOf(numKeyValueHeads, context.count);
    const queryWidth = numHeads * headSize;
    const keyWidth = numKeyValueHeads * headSize;
    const parts = [
      { name: "query", width: features.hasAttentionGate ? 2 * queryWidth : queryWidth },
      { name: "key", width: keyWidth },
      { name: "value", width: keyWidth },
    ] as const;
    const joint = [{ name: "qkv", width: queryWidth + 2 * keyWidth }] as const;
    const normWidths = features.hasJointHeadNorm ? [queryWidth, keyWidth] : [headSize, headSize];
    const [queryNorm, keyNorm] = normWidths.map((size) =>
      features.hasHeadNorm || features.hasJointHeadNorm ? createNorm(config, size, place) : null,
    );
    this.#config = config;
    const [output, split] = [{ name: "output", width } as const, features.hasJointQkv ? joint : parts];
    this.qkv = new Projection(width, split, features.hasQkvBias, place, { output: ranks });
    this.output = new Projection(queryWidth, [output], features.hasOutputBias, place, { input: ranks });
    this.queryNorm = queryNorm!;
    this.keyNorm = keyNorm!;
    this.sinks = features.hasAttentionSinks ? createParameter([numHeads], empty, place) : null;
    this.window = features.fullLayers?.[index] === true ? null : features.slidingWindow;
    this.rotation = features.unrotatedLayers?.[index] === true ? "none" : this.window === null ? "whole" : "local";
  }

  forward(x_SD: Tensor, layer: number, layout: TokenLayout, rotations: Rotations): Tensor {
    const rotation = this.rotationOf(rotations);
    if (rotation !== null && this.#canTurnInPlace(x_SD, layout, rotation)) {
      const mixed_SHK = layout.attend(layer, this.#turned(x_SD, rotation), null, this.kind);
      return this.output.forward(mixed_SHK.reshape(-1, this.#numHeads * this.#config.headSize));
    }
    const { gate_SHK, q_SHK, k_SGK, v_SGK } = this.heads(x_SD);
    const gather = (own: Tensor) => headsOf(this.#context, own, layout.numTokens);
    const repeat = (own: Tensor) => (this.#numRepeats === 1 ? own : own.repeatInterleave(this.#numRepeats, 1));
    const heads = { q_SHK: gather(q_SHK), k_SGK: gather(repeat(k_SGK)), v_SGK: gather(repeat(v_SGK)) };
    const mixed_SHK = rowsOf(this.#context, layout.attend(layer, heads, rotation, this.kind), layout.numTokens);
    const gated_SHK = gate_SHK === null ? mixed_SHK : mixed_SHK.mul(gate_SHK.sigmoid());
    return this.output.forward(gated_SHK.reshape(x_SD.size(0), -1));
  }

  /** Whether heads are the projection itself, with queries and keys turned, and nothing else. */
  #canTurnInPlace(x_SD: Tensor, { takesViews = false }: TokenLayout, { cos_SK }: Rotation): boolean {
    const { headSize, features } = this.#config;
    const isPlain = this.queryNorm === null && !features.hasAttentionGate && !features.hasNeighborRotation;
    const isWhole = this.#context.count === 1 && 2 * cos_SK.shape[1]! === headSize && this.qkv.isWholeProduct;
    return takesViews && isPlain && isWhole && canTurn(x_SD, this.#sizes);
  }

  #turned(x_SD: Tensor, { cos_SK, sin_SK }: Rotation): Heads {
    const { bias } = this.qkv;
    const trained = bias?.requiresGrad === true ? bias : null;
    const qkv_SN = this.qkv.forwardHoldingBias(x_SD);
    const [q_SHK, k_SGK, v_SGK] = turnedHeads(qkv_SN, trained, cos_SK, sin_SK, this.#sizes);
    return { q_SHK, k_SGK, v_SGK };
  }

  get #sizes() {
    return { H: this.#numHeads, G: this.#numKeyValueHeads, K: this.#config.headSize };
  }

  /** The one of a pass's rotations that this layer takes; null where it rotates nothing. */
  rotationOf(rotations: Rotations): Rotation | null {
    return this.rotation === "none" ? null : rotations[this.rotation];
  }

  /** What attention does in this layer. */
  get kind(): AttentionKind {
    const { attentionScale: scale, attentionSoftCap: softCap } = this.#config.features;
    return { window: this.window, scale, softCap, sinks_H: this.sinks };
  }

  /** Queries, keys and values, before rotation, and the gate on what comes of them. */
  heads(x_SD: Tensor): GatedHeads {
    return this.headsOf(this.qkv.forward(x_SD));
  }

  /** The same of what the projection of x gives. */
  headsOf(qkv_SN: Tensor): GatedHeads {
    const { headSize: K, features } = this.#config;
    const [H, G] = [this.#numHeads, this.#numKeyValueHeads];
    const numQueries = features.hasAttentionGate ? 2 * H : H;
    const [queries, k, v] = qkv_SN.view(qkv_SN.size(0), numQueries + 2 * G, K).splitSizes([numQueries, G, G], 1) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    // The gate of a head stands behind its query.
    const [q, gate] = features.hasAttentionGate ? halves(queries, H) : [queries, null];
    return {
      q_SHK: this.#ordered(normalized(q, this.queryNorm)),
      k_SGK: this.#ordered(normalized(k, this.keyNorm)),
      v_SGK: v,
      gate_SHK: gate,
    };
  }

  weights(): LayerWeight[] {
    return [
      ...this.qkv.weights(),
      ...this.output.weights(),
      ...optionalNorm("queryNorm", this.queryNorm),
      ...optionalNorm("keyNorm", this.keyNorm),
      ...(this.sinks === null ? [] : [wholeWeight("sinks", this.sinks, "bare")]),
    ];
  }

  get projections(): readonly Projection[] {
    return [this.qkv, this.output];
  }

  /**
   * Heads in the order that rotation expects: values to be turned together half of the rotated part apart. Queries and keys are
   * reordered alike, so their products stay what they are.
   */
  #ordered(x_SHK: Tensor): Tensor {
    const { headSize, features } = this.#config;
    if (!features.hasNeighborRotation) return x_SHK;
    const R = features.rotarySize ?? headSize;
    const [S, H] = x_SHK.shape as [number, number];
    const [turned, rest] = x_SHK.splitSizes([R, headSize - R], 2) as [Tensor, Tensor];
    const pairs = turned
      .reshape(S, H, R / 2, 2)
      .transpose(2, 3)
      .reshape(S, H, R);
    return R === headSize ? pairs : cat([pairs, rest], 2);
  }
}

/** A norm over each head, or over all of them where it is that wide. */
function normalized(x_SHK: Tensor, norm: RMSNorm | null): Tensor {
  if (norm === null) return x_SHK;
  const [S, H, K] = x_SHK.shape as [number, number, number];
  return norm.width === K ? norm.forward(x_SHK) : norm.forward(x_SHK.reshape(S, H * K)).view(S, H, K);
}

function halves(x: Tensor, numHeads: number): [Tensor, Tensor] {
  const [S, , K] = x.shape as [number, number, number];
  const pairs = x.reshape(S, numHeads, 2, K);
  return [pairs.select(2, 0), pairs.select(2, 1)];
}
