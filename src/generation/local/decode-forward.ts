/**
 * The decoder in the engine on a GPU, for one new token per row and for prompts: what CausalLm.forward computes, in fewer and larger
 * kernels.
 *
 * Sum and norm between two parts are one kernel. So are rotation, cache and attention of new tokens, and rotation and cache of prompts.
 */
import { invariant, RerollError } from "../../errors/reroll-error.ts";
import { Attention } from "../../models/causal-lm/attention.ts";
import type { CausalLm, DecoderLayer } from "../../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../../models/causal-lm/config.ts";
import { type DecoderFeatures, usedFeatures } from "../../models/causal-lm/decoder-features.ts";
import type { Experts } from "../../models/causal-lm/experts.ts";
import { Mlp } from "../../models/causal-lm/mlp.ts";
import type { Projection } from "../../models/causal-lm/projection.ts";
import type { RotaryTable } from "../../models/causal-lm/rotary.ts";
import type { TokenLayout } from "../../models/causal-lm/token-layout.ts";
import { swiglu } from "../../torch/fused.ts";
import { addNormKernel_, canAddNorm } from "../../torch/kernels/norm-kernel.ts";
import { canDecode, type PagedDecode, pagedDecode } from "../../torch/kernels/paged-kernel.ts";
import { hasOp, op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { LayerCache, PagedCache } from "./paged-cache.ts";

/** The tokens of a step, on the device, int32. */
interface DecodeTokens {
  readonly ids_B: Tensor;
  readonly positions_B: Tensor;
  /** The cache blocks of each row, [B, M]. */
  readonly table_BM: Tensor;
}

/** The features that decodeForward computes. Whatever else a decoder does is refused, so a new feature cannot be left out unseen. */
const computed: ReadonlySet<string> = new Set<keyof DecoderFeatures>([
  "hasQkvBias",
  "hasOutputBias",
  "hasMlpBias",
  "hasHeadNorm",
  "hasJointHeadNorm",
  "hasJointQkv",
  "hasJointGateUp",
  "experts",
]);

/** The features a model uses that decodeForward does not compute. */
function missingFeatures({ features }: CausalLmConfig): string[] {
  return usedFeatures(features).filter((name) => !computed.has(name));
}

/** Throws for a model with features that decodeForward does not compute. */
export function expectComputed(config: CausalLmConfig): void {
  const missing = missingFeatures(config);
  if (missing.length === 0) return;
  throw new RerollError(
    "UNSUPPORTED_FEATURE",
    `The CUDA decode path does not compute ${missing.join(", ")}, which this ${config.family} model uses. ` +
      `It computes ${[...computed].join(", ")}. Run the model through CausalLm.forward, as ModelRunner does.`,
    { family: config.family, missing },
  );
}

/** Whether decodeForward can serve a model over this cache. */
export function canDecodeOnGpu(config: CausalLmConfig, { layers, device, blockSize }: PagedCache): boolean {
  const isHalf = /^b?float16$/.test(layers[0]!.keys.dtype);
  const { numHeads, numKeyValueHeads, headSize, width } = config;
  const fits = canDecode(numHeads, numKeyValueHeads, headSize, blockSize) && canAddNorm(width);
  return device.startsWith("cuda") && isHalf && fits && missingFeatures(config).length === 0;
}

/** The scores of the token after each row's, [B, V]. The new keys and values are in the cache then. */
export function decodeForward(
  model: CausalLm,
  rotary: RotaryTable,
  { ids_B, positions_B, table_BM }: DecodeTokens,
  cache: PagedCache,
): Tensor {
  const { cos_SK, sin_SK } = rotary.rotationAt(positions_B, table_BM.size(1) * cache.blockSize - 1);
  const attend = pagedDecode({ positions_B, table_BM, cos_BK: cos_SK, sin_BK: sin_SK }, cache.heads);
  const hidden_BD = layersForward(model, ids_B, (attention, x_BD, i) =>
    attended(attention, x_BD, attend, cache.layers[i]!),
  );
  return model.logits(hidden_BD);
}

/** The hidden states of the tokens of prompts, [S, D]: what CausalLm.forward computes, for models that decodeForward computes. */
export function promptForward(model: CausalLm, rotary: RotaryTable, ids_S: Tensor, layout: TokenLayout): Tensor {
  const rotation = rotary.rotationAt(layout.positions_S, layout.maxPosition);
  const kind = { window: null, scale: null, softCap: null, sinks_H: null };
  return layersForward(model, ids_S, (attention, x_SD, i) => {
    const mixed_SHK = layout.attend(i, attention.heads(x_SD), rotation, kind);
    return attention.output.forward(mixed_SHK.flatten(1));
  });
}

/** Tokens through all layers, sum and norm between their parts in one kernel. `mix` is what attention makes of them in a layer. */
function layersForward(
  model: CausalLm,
  ids_S: Tensor,
  mix: (attention: Attention, x_SD: Tensor, layer: number) => Tensor,
): Tensor {
  const { layers, norm, config } = model;
  const x_SD = model.embed(ids_S);
  let normed_SD = usualParts(layers[0]!).inputNorm.forward(x_SD);
  layers.forEach((layer, i) => {
    normed_SD = tensorScope(() => {
      const { attention, postAttentionNorm, mlp } = usualParts(layer);
      const mixed = mix(attention, normed_SD, i);
      const inner_SD = addNormKernel_(x_SD, mixed, postAttentionNorm.weight, config.normEps);
      const { weight } = layers[i + 1]?.inputNorm ?? norm;
      return addNormKernel_(x_SD, transformed(mlp, inner_SD), weight, config.normEps);
    });
  });
  return normed_SD;
}

/** The parts of a layer, which the features that are computed here always give it. */
function usualParts({ inputNorm, attention, postAttentionNorm, mlp }: DecoderLayer) {
  invariant(
    inputNorm !== null && postAttentionNorm !== null && attention instanceof Attention,
    "the CUDA decode path got a layer with other parts than it computes",
  );
  return { inputNorm, attention, postAttentionNorm, mlp };
}

function transformed(mlp: Mlp | Experts, x_SD: Tensor): Tensor {
  return mlp instanceof Mlp ? product(mlp.down, swiglu(mlp.gateUp.forward(x_SD))) : mlp.forward(x_SD);
}

/** Products of more rows fill the device without being cut. */
const maxCutRows = 1024;

/**
 * A linear map as addNormKernel_ takes it: cut along its inner dimension where it can be. The parts run at the same time, and
 * a pass over memory to add them up is saved.
 */
function product(projection: Projection, x_SI: Tensor): Tensor {
  const { weight, bias, adapters } = projection;
  const [D, I] = weight.shape as [number, number];
  const S = x_SI.size(0);
  const parts = I >= 4096 ? 4 : 2;
  const isPlain = bias === null && adapters.length === 0 && projection.quantized === null;
  const canCut = hasOp("aten::bmm.dtype") && isPlain && S <= maxCutRows && I % (8 * parts) === 0;
  if (!canCut) return projection.forward(x_SI);
  const cut = (x: Tensor, rows: number) => x.view(rows, parts, I / parts).transpose(0, 1);
  return bmm(cut(x_SI, S), cut(weight, D).transpose(1, 2), "float32");
}

function attended(attention: Attention, x_BD: Tensor, attend: PagedDecode, layer: LayerCache): Tensor {
  const { q_SHK, k_SGK, v_SGK } = attention.heads(x_BD);
  return product(attention.output, attend({ q_BHK: q_SHK, k_BGK: k_SGK, v_BGK: v_SGK }, layer).flatten(1));
}

const bmm = op("aten::bmm.dtype");
