/**
 * What sets decoders apart, as data: the features that families turn on, and the parts that checkpoints name.
 *
 * A path that does not know every feature of a model must not run it: see usedFeatures.
 */
import type { Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";

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
  /** RMSNorm over all query heads together, and over all key heads. */
  readonly hasJointHeadNorm: boolean;
  /** Tokens see at most this many positions back, themselves included. */
  readonly slidingWindow: number | null;
  /** For each layer, whether it sees everything where the others have the sliding window. */
  readonly fullLayers: readonly boolean[] | null;
  /** The base of the unscaled rotation in layers with the sliding window; the others rotate as the config says. */
  readonly localRopeTheta: number | null;
  /** For each layer, whether its queries and keys are not rotated at all. */
  readonly unrotatedLayers: readonly boolean[] | null;
  /** The number of values at the start of each head that are rotated; the others pass. */
  readonly rotarySize: number | null;
  /** Rotation turns neighboring values of a head, in place of values half a head apart. */
  readonly hasNeighborRotation: boolean;
  /** The factor on attention scores, where it is not 1 / sqrt(headSize). */
  readonly attentionScale: number | null;
  /** Attention scores are bent to stay within this: cap tanh(score / cap). */
  readonly attentionSoftCap: number | null;
  /** A learned score per head that takes its share of attention and gives no value. */
  readonly hasAttentionSinks: boolean;
  /** What attention gives is multiplied by the sigmoid of a gate, which the query projection makes. */
  readonly hasAttentionGate: boolean;
  /** Layers of linear attention in place of attention over all tokens. */
  readonly linearAttention: LinearAttentionConfig | null;
  /** Scores of the next token are bent to stay within this. */
  readonly scoreSoftCap: number | null;
  /** The factor on embeddings as they enter the first layer. */
  readonly embeddingScale: number | null;
  /** Norms multiply by 1 + weight. */
  readonly hasOffsetNorms: boolean;
  /** Norms of what attention and MLP give, before it is added to the residual stream. */
  readonly hasOutputNorms: boolean;
  /** No norms of what attention and MLP are given. */
  readonly hasBareInputs: boolean;
  /** Checkpoints, and adapters with them, hold the projections of query, key and value as one. */
  readonly hasJointQkv: boolean;
  /** Checkpoints, and adapters with them, hold the projections of gate and up as one. */
  readonly hasJointGateUp: boolean;
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
  /** Biases on the router and on every expert. */
  readonly hasBias: boolean;
  /** In place of silu(g) u: with g at most, and u within, the limit, g sigmoid(alpha g) (u + 1). Gate and up alternate. */
  readonly clampedGate: { readonly limit: number; readonly alpha: number } | null;
  /** The inner width of an expert that sees every token, weighed by a gate of its own. */
  readonly sharedWidth: number | null;
}

/** The shape of linear attention: a gated delta net. */
export interface LinearAttentionConfig {
  /** For each layer, whether it has linear attention. */
  readonly layers: readonly boolean[];
  readonly numKeyHeads: number;
  readonly numValueHeads: number;
  readonly keySize: number;
  readonly valueSize: number;
  /** The number of tokens that the convolution before it sees. */
  readonly kernelSize: number;
  /** Checkpoints hold its input projections as two, with the parts of each key head side by side, and not as four. */
  readonly hasGroupedInput: boolean;
}

/** Every feature off. */
export const plainFeatures: DecoderFeatures = {
  hasQkvBias: false,
  hasOutputBias: false,
  hasMlpBias: false,
  hasHeadNorm: false,
  hasJointHeadNorm: false,
  slidingWindow: null,
  fullLayers: null,
  localRopeTheta: null,
  unrotatedLayers: null,
  rotarySize: null,
  hasNeighborRotation: false,
  attentionScale: null,
  attentionSoftCap: null,
  hasAttentionSinks: false,
  hasAttentionGate: false,
  linearAttention: null,
  scoreSoftCap: null,
  embeddingScale: null,
  hasOffsetNorms: false,
  hasOutputNorms: false,
  hasBareInputs: false,
  hasJointQkv: false,
  hasJointGateUp: false,
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
  | "qkv"
  | "sinks"
  | "queryNorm"
  | "keyNorm"
  | "attentionOutputNorm"
  | "postAttentionNorm"
  | "mlpOutputNorm"
  | "gate"
  | "up"
  | "down"
  | "gateUp"
  | "linearQkv"
  | "linearZ"
  | "linearB"
  | "linearA"
  | "linearQkvz"
  | "linearBa"
  | "linearConvolution"
  | "linearStepBias"
  | "linearLogDecay"
  | "linearNorm"
  | "linearOutput"
  | "router"
  | "expertGate"
  | "expertUp"
  | "expertDown"
  | "expertGateUp"
  | "expertGateUpBias"
  | "expertDownBias"
  | "sharedGate"
  | "sharedUp"
  | "sharedDown"
  | "sharedWeight";

/** A weight of a layer as checkpoints store it: part of a parameter. */
export interface LayerWeight {
  readonly part: LayerPart;
  /** What the name ends with; "bare" for a weight that is stored under the name of its part. */
  readonly kind: "weight" | "bias" | "bare";
  /** The expert that the weight belongs to, for the parts of experts. */
  readonly expert?: number;
  readonly parameter: Parameter;
  /** The part of the parameter, or of anything of its shape such as its gradient. */
  readonly viewOf: (whole: Tensor) => Tensor;
  /** The values of the parameter, where they are not its own: see Projection.quantize. */
  readonly valuesOf?: () => Tensor;
  /** Puts values in their place, where that is not the parameter: see Fp8Matrix. */
  readonly write?: (values: Tensor) => void;
  /** Whether another rank has it: `viewOf` is then of the whole parameter, and not of what is here. Default false. */
  readonly isElsewhere?: boolean;
}

/** A whole parameter as a weight of a layer. */
export function wholeWeight(part: LayerPart, parameter: Parameter, kind: LayerWeight["kind"] = "weight"): LayerWeight {
  return { part, kind, parameter, viewOf: (whole) => whole };
}
