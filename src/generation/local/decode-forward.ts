/**
 * The decoder in the engine on a GPU, for prompts and for one new token per row, in shapes that a graph can record: what
 * CausalLm.forward computes, in fewer and larger kernels.
 *
 * Rotation, cache and attention of new tokens are one kernel, and sum and norm between two parts are another where the norms allow it. Few
 * rows of models without further parts go through kernels that overlap: see chained-layers.ts.
 * Nothing is read back from the device.
 */
import { invariant } from "../../errors/reroll-error.ts";
import { Attention, type GatedHeads } from "../../models/causal-lm/attention.ts";
import type { CausalLm, DecoderLayer } from "../../models/causal-lm/causal-lm.ts";
import type { Experts } from "../../models/causal-lm/experts.ts";
import type { GatedDeltaNet } from "../../models/causal-lm/gated-delta-net.ts";
import { Mlp } from "../../models/causal-lm/mlp.ts";
import type { Projection } from "../../models/causal-lm/projection.ts";
import type { ModelRotary, Rotation, Rotations } from "../../models/causal-lm/rotary.ts";
import { rotateHeads, type TokenLayout } from "../../models/causal-lm/token-layout.ts";
import { ones, zeros } from "../../torch/create.ts";
import { deltaKernel } from "../../torch/kernels/delta-kernel.ts";
import { addNormKernel_ } from "../../torch/kernels/norm-kernel.ts";
import { clusterCutFor, pagedCluster } from "../../torch/kernels/paged-cluster-kernel.ts";
import { pagedFp8Decode } from "../../torch/kernels/paged-fp8-kernel.ts";
import {
  type DecodeHeads,
  type DecodeRows,
  type PagedDecode,
  padHeads,
  pagedDecode,
  repeatsOf,
} from "../../torch/kernels/paged-kernel.ts";
import { pagedStream, streamCutFor } from "../../torch/kernels/paged-stream-kernel.ts";
import { hasProductKernels } from "../../torch/kernels/product-kernel.ts";
import type { StepScores } from "../../torch/kernels/score-tiles-kernel.ts";
import type { RMSNorm } from "../../torch/nn/rms-norm.ts";
import { hasOp, op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { fp8KeysOf } from "./cached-heads.ts";
import { canChain, chainedScores } from "./chained-layers.ts";
import type { PagedCache } from "./paged-cache.ts";

/** The tokens of a step, on the device, int32. */
export interface DecodeTokens {
  readonly ids_B: Tensor;
  readonly positions_B: Tensor;
  /** The cache blocks of each row, [B, M]. */
  readonly table_BM: Tensor;
  /** The rows of states that each token reads and leaves, where the model has linear attention. */
  readonly stateFrom_B: Tensor;
  readonly stateTo_B: Tensor;
  /** The rotations of layers at these positions. */
  readonly rotations: Rotations;
  /** See DecodeRows. */
  readonly arrivals_N?: Tensor;
  /** The temperatures of the draw after the step, [B], float32 by their bits. */
  readonly temperatures_B: Tensor;
}

/**
 * The scores of the token after each row's. The new keys and values, and the new states, are in the cache then. `isChain` says which
 * kernels compute the layers; both give the same up to the rounding of 16 bits.
 */
export function decodeForward(
  model: CausalLm,
  tokens: DecodeTokens,
  cache: PagedCache,
  isChain = cache.format === "plain" && canChain(model, tokens.ids_B.size(0)),
): StepScores {
  const { ids_B, rotations } = tokens;
  const { features } = model.config;
  const { numHeads, numGroups, headSize, storedSize } = cache.heads;
  const heads = { numHeads, numGroups, headSize: storedSize };
  const attend = attendOver(cache, tokens, heads, isChain);
  const isPartial = features.rotarySize !== null || features.unrotatedLayers !== null || storedSize !== headSize;
  const still = isPartial ? stillRotation(ids_B.size(0), storedSize, ids_B.device) : rotations.whole;
  const parts = { attend, rotations, still, tokens, cache };
  if (isChain)
    return chainedScores(model, tokens, (attention, qkv_BN, i) => {
      return attendedHeads(attention, attention.headsOf(qkv_BN), i, parts);
    });
  const normed_BD = runLayers(model, ids_B, (layer, x_BD, i) => mixed(layer, x_BD, i, parts));
  return { scores_BV: model.logits(normed_BD), tiles: null };
}

/** The hidden states of the tokens of prompts, [S, D]. For models without experts. */
export function promptForward(model: CausalLm, rotary: ModelRotary, ids_S: Tensor, layout: TokenLayout): Tensor {
  const rotations = rotary.rotationsAt(layout.positions_S, layout.maxPosition);
  return runLayers(model, ids_S, ({ attention }, x_SD, i) => {
    if (!(attention instanceof Attention)) return attention.forward(x_SD, i, layout);
    const { gate_SHK, ...heads } = attention.heads(x_SD);
    const mixed_SHK = layout.attend(i, heads, attention.rotationOf(rotations), attention.kind);
    return product(attention.output, gated(mixed_SHK, gate_SHK).flatten(1));
  });
}

/** Attention of new tokens over what a layer of the cache has. */
type Attend = (layer: number, ...rest: OtherArguments<PagedDecode>) => Tensor;
type OtherArguments<Decode> = Decode extends (heads: infer New, paged: never, ...rest: infer Rest) => Tensor
  ? [New, ...Rest]
  : never;

function attendOver(cache: PagedCache, rows: DecodeRows, heads: DecodeHeads, overlaps: boolean): Attend {
  if (cache.format === "codes") {
    const attend = pagedFp8Decode(rows, heads);
    return (layer, news, ...rest) => attend(news, fp8KeysOf(cache, layer), ...rest);
  }
  const attend = plainAttention(rows, heads, overlaps);
  return (layer, news, ...rest) => attend(news, cache.keysOf(layer), ...rest);
}

/** The kernel for this many rows. */
function plainAttention(rows: DecodeRows, heads: DecodeHeads, overlaps: boolean): PagedDecode {
  const [B, M] = rows.table_BM.shape as [number, number];
  const numRows = B * heads.numGroups * repeatsOf(heads.numHeads / heads.numGroups);
  if (!hasProductKernels()) return pagedDecode(rows, heads, { overlaps });
  const sizes = [numRows, 16 * M, heads.headSize] as const;
  const cluster = clusterCutFor(...sizes);
  if (cluster !== null) return pagedCluster(rows, heads, cluster, overlaps);
  const stream = streamCutFor(...sizes);
  return stream === null ? pagedDecode(rows, heads, { overlaps }) : pagedStream(rows, heads, stream, overlaps);
}

/** What all layers of a step share. */
interface StepParts {
  readonly attend: Attend;
  readonly rotations: Rotations;
  /** A rotation that turns nothing, where a layer needs it. */
  readonly still: Rotation;
  readonly tokens: DecodeTokens;
  readonly cache: PagedCache;
}

/** What attention of layer `index` adds to the residual stream. */
type Mix = (layer: DecoderLayer, x_SD: Tensor, index: number) => Tensor;

function runLayers(model: CausalLm, ids_S: Tensor, mix: Mix): Tensor {
  const { hasOffsetNorms, hasOutputNorms, hasBareInputs } = model.config.features;
  const run = hasOffsetNorms || hasOutputNorms || hasBareInputs ? runPlainLayers : runFusedLayers;
  return run(model, model.embed(ids_S), mix);
}

type RunLayers = (model: CausalLm, x_SD: Tensor, mix: Mix) => Tensor;

/** Layers whose sums and norms the kernel joins: a norm before each part and none after it. */
const runFusedLayers: RunLayers = ({ layers, norm, config }, x_BD, mix) => {
  let normed_BD = usualNorms(layers[0]!).inputNorm.forward(x_BD);
  layers.forEach((layer, i) => {
    normed_BD = tensorScope(() => {
      const { postAttentionNorm } = usualNorms(layer);
      const mixed = mix(layer, normed_BD, i);
      const inner_BD = addNormKernel_(x_BD, mixed, postAttentionNorm.weight, config.normEps);
      const { weight } = layers[i + 1]?.inputNorm ?? norm;
      return addNormKernel_(x_BD, transformed(layer.mlp, inner_BD), weight, config.normEps);
    });
  });
  return normed_BD;
};

/** Layers with other norms, as DecoderLayer adds them up. */
const runPlainLayers: RunLayers = ({ layers, norm }, x_BD, mix) => {
  const normalized = (own: RMSNorm | null, x: Tensor) => own?.forward(x) ?? x;
  layers.forEach((layer, i) => {
    const { inputNorm, attentionOutputNorm, postAttentionNorm, mlp, mlpOutputNorm } = layer;
    tensorScope(() => {
      const mixed_BD = summed(mix(layer, normalized(inputNorm, x_BD), i), x_BD);
      x_BD.add_(normalized(attentionOutputNorm, mixed_BD));
      const made_BD = summed(transformed(mlp, normalized(postAttentionNorm, x_BD)), x_BD);
      x_BD.add_(normalized(mlpOutputNorm, made_BD));
    });
  });
  return norm.forward(x_BD);
};

/** The norms of a layer that is computed by runFusedLayers. */
function usualNorms({ inputNorm, postAttentionNorm }: DecoderLayer) {
  invariant(
    inputNorm !== null && postAttentionNorm !== null,
    "the CUDA decode path got a layer with other norms than it computes",
  );
  return { inputNorm, postAttentionNorm };
}

function transformed(mlp: Mlp | Experts, x_BD: Tensor): Tensor {
  return mlp instanceof Mlp ? product(mlp.down, mlp.inner(x_BD)) : mlp.forwardFixed(x_BD);
}

function mixed({ attention }: DecoderLayer, x_BD: Tensor, index: number, parts: StepParts): Tensor {
  return attention instanceof Attention
    ? attended(attention, x_BD, index, parts)
    : remembered(attention, x_BD, index, parts);
}

function attended(attention: Attention, x_BD: Tensor, index: number, parts: StepParts): Tensor {
  return product(attention.output, attendedHeads(attention, attention.heads(x_BD), index, parts));
}

/** What attention gives to its output projection, [B, H K]. */
function attendedHeads(
  attention: Attention,
  { gate_SHK, ...heads }: GatedHeads,
  index: number,
  { attend, rotations, still, cache }: StepParts,
): Tensor {
  const { headSize, storedSize } = cache.heads;
  const rotation = attention.rotationOf(rotations);
  // The kernel turns whole heads. Where a part of each is turned, it is before.
  const isWhole = rotation !== null && 2 * rotation.cos_SK.size(1) === storedSize;
  const { q_SHK, k_SGK, v_SGK } = isWhole ? heads : rotateHeads(heads, rotation);
  const padded = (x: Tensor) => padHeads(x, storedSize);
  const news = { q_BHK: padded(q_SHK), k_BGK: padded(k_SGK), v_BGK: padded(v_SGK) };
  const kind = { ...attention.kind, scale: attention.kind.scale ?? headSize ** -0.5 };
  const mixed_BHK = attend(index, news, isWhole ? rotation : still, kind).narrow(2, 0, headSize);
  return gated(mixed_BHK, gate_SHK).flatten(1);
}

function remembered(attention: GatedDeltaNet, x_BD: Tensor, index: number, { tokens, cache }: StepParts): Tensor {
  const { convolution, stepBias, logDecay, norm } = attention;
  const weights = { convolution, stepBias, logDecay, norm: norm.weight, normEps: norm.eps };
  const states = { ...cache.statesOf(index), from_B: tokens.stateFrom_B, to_B: tokens.stateTo_B };
  return product(attention.output, deltaKernel(attention.input.forward(x_BD), attention.shape, weights, states));
}

function gated(mixed_SHK: Tensor, gate_SHK: Tensor | null): Tensor {
  return gate_SHK === null ? mixed_SHK : mixed_SHK.mul(gate_SHK.sigmoid());
}

function stillRotation(B: number, headSize: number, device: Tensor["device"]): Rotation {
  const shape = [B, headSize / 2];
  return { cos_SK: ones(shape, { device }), sin_SK: zeros(shape, { device }) };
}

/** Products of more rows fill the device without being cut. */
const maxCutRows = 256;

/**
 * A linear map as addNormKernel_ takes it: cut along its inner dimension where it can be. The parts run at the same time, and
 * a pass over memory to add them up is saved.
 */
function product(projection: Projection, x_BI: Tensor): Tensor {
  const { weight, isPlain } = projection;
  const [D, I] = weight.shape as [number, number];
  const parts = I >= 4096 ? 4 : 2;
  if (!isPlain || x_BI.size(0) > maxCutRows || !hasOp("aten::bmm.dtype") || I % (8 * parts) !== 0)
    return projection.forward(x_BI);
  const cut = (x: Tensor, rows: number) => x.view(rows, parts, I / parts).transpose(0, 1);
  return bmm(cut(x_BI, x_BI.size(0)), cut(weight, D).transpose(1, 2), "float32");
}

/** What `product` gives, in one piece and the type of `like`. */
function summed(made: Tensor, like: Tensor): Tensor {
  return made.shape.length === 3 ? made.sum(0).to(like.dtype) : made;
}

const bmm = op("aten::bmm.dtype");
