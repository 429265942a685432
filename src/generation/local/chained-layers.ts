/**
 * The layers of a decode step as a chain of kernels, on Hopper GPUs: five for a layer, each of which fetches its weights or its keys while the
 * one before it still runs. At few rows a kernel takes longer to start, to wait for its first bytes and to end than to compute.
 */
import { invariant } from "../../errors/reroll-error.ts";
import { Attention } from "../../models/causal-lm/attention.ts";
import type { CausalLm, DecoderLayer } from "../../models/causal-lm/causal-lm.ts";
import { Mlp } from "../../models/causal-lm/mlp.ts";
import type { Projection } from "../../models/causal-lm/projection.ts";
import {
  embedNorm,
  endNorm,
  fitsProduct,
  gatedProduct,
  hasProductKernels,
  numSquares,
  residualProduct_,
  scaledProduct,
  scoresProduct,
  startNorm,
} from "../../torch/kernels/product-kernel.ts";
import type { StepScores } from "../../torch/kernels/score-tiles-kernel.ts";
import type { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";

/** What goes into the output projection of layer `index`, [B, H K], of its queries, keys and values side by side. */
type Attend = (attention: Attention, qkv_BN: Tensor, index: number) => Tensor;

/** With more rows than this, products compute longer than they fetch, and the library's are better at that. */
const maxRows = 64;
/** Layers that the second-level cache holds gain from the chain with more rows too. */
const small = { layerBytes: 40e6, maxRows: 256 } as const;

/** Whether a step of this many rows is a chain. Models with parts that it has no kernel for, and larger steps, go the usual way. */
export function canChain(model: CausalLm, numRows: number, isHopper = hasProductKernels()): boolean {
  if (!isHopper || !canChainLayers(model)) return false;
  const parts = partsOf(model.layers[0]!);
  const layerBytes = parts === null ? 0 : parts.reduce((sum, { weight }) => sum + 2 * weight.numel, 0);
  return numRows <= (layerBytes <= small.layerBytes ? small.maxRows : maxRows);
}

/** Whether the layers of a model are what the chain computes. */
function canChainLayers({ layers, config }: CausalLm): boolean {
  const { hasOffsetNorms, hasOutputNorms, hasBareInputs, hasGeluGate } = config.features;
  if (hasOffsetNorms || hasOutputNorms || hasBareInputs || hasGeluGate) return false;
  return layers.every((layer) => partsOf(layer)?.every(isChainable) === true);
}

/** The matrices of a layer of attention and a plain MLP, in the order of the chain; null for other layers. */
function partsOf({ attention, mlp }: DecoderLayer): readonly [Projection, Projection, Projection, Projection] | null {
  if (!(attention instanceof Attention && mlp instanceof Mlp)) return null;
  return [attention.qkv, attention.output, mlp.gateUp, mlp.down];
}

function isChainable({ weight, bias, adapters, quantized, ranks, parts }: Projection): boolean {
  const isWhole = ranks.input.count === 1 && ranks.output.count === 1;
  const mayHaveBias = parts.some(({ name }) => name === "query" || name === "qkv");
  return (
    isWhole && adapters.length === 0 && quantized === null && (bias === null || mayHaveBias) && fitsProduct(weight)
  );
}

/** The tokens of a step, int32, and the temperatures of the draw after it. */
interface ChainedTokens {
  readonly ids_B: Tensor;
  readonly temperatures_B: Tensor;
}

/** What decodeForward gives for models and rows of which canChain is true. */
export function chainedScores(model: CausalLm, { ids_B, temperatures_B }: ChainedTokens, attend: Attend): StepScores {
  const { layers, norm, config } = model;
  const { normEps: eps } = config;
  const numParts = numSquares(chainOf(layers[0]!).down.weight, ids_B.size(0));
  const normAfter = (i: number) => ({ weight: (layers[i + 1]?.inputNorm ?? norm).weight, eps });
  const { x_BD, norm: first } = started(model, ids_B, numParts);
  let before = first;
  layers.forEach((layer, i) => {
    const { attention, postAttentionNorm, gateUp, down } = chainOf(layer);
    before = tensorScope(() => {
      const qkv_BN = scaledProduct(before, attention.qkv.weight, attention.qkv.bias);
      const mixed_BN = attend(attention, qkv_BN, i);
      const between = residualProduct_(x_BD, mixed_BN, attention.output.weight, {
        weight: postAttentionNorm.weight,
        eps,
      });
      return residualProduct_(x_BD, gatedProduct(between, gateUp.weight), down.weight, normAfter(i));
    });
  });
  const isHeadChained = ids_B.size(0) <= maxRows && model.softCap === null && fitsProduct(model.head);
  if (isHeadChained) return scoresProduct(before, model.head, temperatures_B);
  return { scores_BV: model.logits(endNorm(x_BD, before, norm.weight)), tiles: null };
}

/** Embedded tokens, and the first norm of them. */
function started(model: CausalLm, ids_B: Tensor, numParts: number): ReturnType<typeof embedNorm> {
  const { weight } = chainOf(model.layers[0]!).inputNorm;
  const { normEps, features } = model.config;
  if (features.embeddingScale === null) return embedNorm(ids_B, model.embedding, weight, normEps, numParts);
  const x_BD = model.embed(ids_B);
  return { x_BD, norm: startNorm(x_BD, weight, normEps, numParts) };
}

interface ChainedLayer {
  readonly attention: Attention;
  readonly inputNorm: RMSNorm;
  readonly postAttentionNorm: RMSNorm;
  readonly gateUp: Projection;
  readonly down: Projection;
}

function chainOf({ attention, inputNorm, postAttentionNorm, mlp }: DecoderLayer): ChainedLayer {
  invariant(
    attention instanceof Attention && mlp instanceof Mlp && inputNorm !== null && postAttentionNorm !== null,
    "the chain of decode kernels got a layer with other parts than it computes",
  );
  return { attention, inputNorm, postAttentionNorm, gateUp: mlp.gateUp, down: mlp.down };
}
