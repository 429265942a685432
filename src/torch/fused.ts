/**
 * Operators that newer versions of libtorch have in fused form: each is here once, with its composed form beside it.
 *
 * Shapes: B rows, H query heads, G key/value heads, T queries, C keys, S packed tokens, K head size, D width.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { applyFunction } from "./autograd.ts";
import { causalMask, composedAttention } from "./composed-attention.ts";
import { cat, full, zerosLike } from "./create.ts";
import type { DType } from "./dtype.ts";
import { isExact } from "./exact.ts";
import { hasKernels } from "./kernels/cuda-kernel.ts";
import { isRotatable, rotateKernel } from "./kernels/rotate-kernel.ts";
import { sampledLogprobKernel } from "./kernels/sample-kernel.ts";
import { canScale, scaleKernel } from "./kernels/scale-kernel.ts";
import { scoreGradientKernel_, scoreStatisticsKernel } from "./kernels/score-kernel.ts";
import { fitsScoreRow, scoreRowKernel_ } from "./kernels/score-row-kernel.ts";
import { hasOp, op } from "./operator.ts";
import { areRows, residualNormRows, rotateRows } from "./row-passes.ts";
import type { Tensor } from "./tensor.ts";

/** x / sqrt(mean(x^2) + eps) * weight over the last dimension, computed in float32. */
export function rmsNorm(x: Tensor, weight: Tensor, eps: number): Tensor {
  if (areRows([x, weight])) return residualNormRows(x, null, weight, eps).normed;
  if (hasOp("aten::rms_norm")) return ops.rmsNorm(x, weight.shape, weight, eps);
  const x32 = x.dtype === "float64" ? x : x.to("float32");
  const scale = x32.square().mean(-1, true).add(eps).rsqrt();
  return x32.mul(scale).to(x.dtype).mul(weight);
}

/** How queries may see keys. */
export interface AttentionOptions {
  /** Query i sees keys up to i + (C - T): the queries are the last T of C positions. Default false. */
  readonly isCausal?: boolean;
  /** Query i sees at most this many keys, up to and including its own. Default: all of them. */
  readonly window?: number | null;
  /** True where a query may see a key, broadcast to [B, H, T, C]. Not together with isCausal. */
  readonly mask?: Tensor;
  /** Factor on the scores. Default 1 / sqrt(K). */
  readonly scale?: number | null;
  /** Scores are bent to stay within this: cap tanh(score / cap). Default: they are not. */
  readonly softCap?: number | null;
  /** A score per query head that takes its share of the softmax and gives no value, [H]. Default none. */
  readonly sinks_H?: Tensor | null;
}

/** softmax(q k' * scale) v. Key/value heads may be fewer than query heads (grouped-query attention). */
export function attention(q_BHTK: Tensor, k_BGCK: Tensor, v_BGCK: Tensor, options: AttentionOptions = {}): Tensor {
  const { isCausal = false, window = null, mask } = options;
  if (isCausal && mask !== undefined) {
    throw new RerollError(
      "INVALID_ARGUMENT",
      "attention takes isCausal or a mask, not both. Put causality in the mask.",
    );
  }
  expectHeads(q_BHTK, k_BGCK, v_BGCK);
  const T = q_BHTK.size(2);
  const C = k_BGCK.size(2);
  const scale = options.scale ?? q_BHTK.size(3) ** -0.5;
  const needsMask = isCausal && (T !== C || (window !== null && window < C));
  const seen = needsMask ? causalMask(T, C, window, q_BHTK.device) : mask;
  const { softCap = null, sinks_H = null } = options;
  const isUsual = softCap === null && sinks_H === null;
  if (isUsual && hasOp("aten::scaled_dot_product_attention")) {
    const isGrouped = q_BHTK.size(1) !== k_BGCK.size(1);
    // A single query at the end sees everything: no mask needed, and the fast kernels take none.
    const isPlain = isCausal && T === 1 && !needsMask;
    return ops.attention(q_BHTK, k_BGCK, v_BGCK, seen ?? null, 0, isCausal && !needsMask && !isPlain, scale, isGrouped);
  }
  return composedAttention(q_BHTK, k_BGCK, v_BGCK, seen ?? (isCausal ? causalMask(T, C, null, q_BHTK.device) : null), {
    scale,
    softCap,
    sinks_H,
  });
}

/**
 * Causal attention of several sequences laid end to end: q [S, H, K], k and v [S, G, K], one [S, H, K] back. A token
 * sees its own sequence only. Uses the variable-length flash kernel where there is one, else a sequence at a time.
 */
export function packedAttention(q_SHK: Tensor, k_SGK: Tensor, v_SGK: Tensor, options: PackedAttentionOptions): Tensor {
  const { window = null, keys = options, softCap = null, sinks_H = null } = options;
  const scale = options.scale ?? q_SHK.size(2) ** -0.5;
  const isUsual = softCap === null && sinks_H === null;
  const isHalfOnGpu = q_SHK.device.startsWith("cuda") && /^b?float16$/.test(q_SHK.dtype);
  const isFlash = isUsual && isHalfOnGpu && hasOp("aten::_flash_attention_forward");
  if (isFlash && !isEven(options, keys, window)) return varlenFlash(q_SHK, k_SGK, v_SGK, options, keys, window, scale);
  const parts: Tensor[] = [];
  let [start, keyStart] = [0, 0];
  for (const { length, keyLength, count } of equalRuns(options.lengths, keys.lengths)) {
    const rows = (x: Tensor, from: number, T: number) =>
      x
        .narrow(0, from, count * T)
        .view(count, T, x.size(1), x.size(2))
        .transpose(1, 2);
    const [k, v] = [rows(k_SGK, keyStart, keyLength), rows(v_SGK, keyStart, keyLength)];
    const out = attention(rows(q_SHK, start, length), k, v, { isCausal: true, window, scale, softCap, sinks_H });
    parts.push(out.transpose(1, 2).reshape(count * length, q_SHK.size(1), q_SHK.size(2)));
    start += count * length;
    keyStart += count * keyLength;
  }
  return parts.length === 1 ? parts[0]! : cat(parts, 0);
}

/**
 * Whether several sequences of one length see themselves alone. libtorch takes those through cuDNN on a Hopper GPU, which is faster than its
 * flash kernel; the form of cuDNN's for other lengths it builds anew at every call.
 */
function isEven({ lengths, maxLength }: PackedRows, keys: PackedRows, window: number | null): boolean {
  const isLongest = (length: number) => length === maxLength;
  return window === null && lengths.length >= 4 && lengths.every(isLongest) && keys.lengths.every(isLongest);
}

/** Neighbors of equal lengths go through attention together. */
function equalRuns(
  lengths: readonly number[],
  keyLengths: readonly number[],
): { readonly length: number; readonly keyLength: number; readonly count: number }[] {
  const runs: { length: number; keyLength: number; count: number }[] = [];
  for (const [i, length] of lengths.entries()) {
    const keyLength = keyLengths[i]!;
    const last = runs.at(-1);
    if (last?.length === length && last.keyLength === keyLength) last.count++;
    else runs.push({ length, keyLength, count: 1 });
  }
  return runs;
}

/** How sequences lie end to end. */
export interface PackedRows {
  readonly lengths: readonly number[];
  /** Where each sequence starts, and the total: [sequences + 1], int32. */
  readonly starts_int32: Tensor;
  readonly maxLength: number;
}

export interface PackedAttentionOptions extends PackedRows, Omit<AttentionOptions, "isCausal" | "mask"> {
  /** Where there are more keys than queries: the queries of a sequence are its last tokens. Default: as many. */
  readonly keys?: PackedRows;
}

/**
 * Rotates pairs (x[k], x[k + K/2]) by the angle of their position: x is [S, H, K], cos and sin are [S, K/2] in float32.
 * Keeps nothing but cos and sin for the backward pass, which rotates back.
 */
export function rotate(x_SHK: Tensor, cos_SK: Tensor, sin_SK: Tensor): Tensor {
  return applyFunction(rotateFunction, [x_SHK, cos_SK, sin_SK])[0]!;
}

const rotateFunction = {
  forward: ([x, cos, sin]: readonly Tensor[]) => ({ outputs: [rotated(x!, cos!, sin!, 1)], saved: [cos!, sin!] }),
  backward: ([grad]: readonly (Tensor | null)[], [cos, sin]: readonly Tensor[]) => [
    rotated(grad!, cos!, sin!, -1),
    null,
    null,
  ],
};

function rotated(x: Tensor, cos_SK: Tensor, sin_SK: Tensor, sign: 1 | -1): Tensor {
  if (hasKernels(x) && isRotatable(x)) return rotateKernel(x, cos_SK, sin_SK, sign);
  if (areRows([x, cos_SK, sin_SK])) return rotateRows(x, cos_SK, sin_SK, sign);
  const cos = cos_SK.to(x.dtype).unsqueeze(1);
  const sin = sin_SK.to(x.dtype).unsqueeze(1).mul(sign);
  const [a, b] = x.chunk(2, -1);
  return cat([a!.mul(cos).sub_(b!.mul(sin)), b!.mul(cos).add_(a!.mul(sin))], -1);
}

/** x times a factor of one element, in the type `dtype`. */
export function scaledTo(x: Tensor, factor: Tensor, dtype: DType): Tensor {
  if (canScale(x, dtype)) return scaleKernel(x, factor.to("float32"), dtype);
  return x.to(dtype).mul(factor.to(dtype));
}

/** What a loss needs to know about each row of scores, in float32 (float64 for float64 scores). */
export interface ScoreStatistics {
  readonly logprob: Tensor;
  readonly entropy: Tensor;
  readonly logNormalizer: Tensor;
}

/** log p(target), entropy and log Z per row of softmax(scores / temperature). Without entropy it may be anything. */
export function scoreStatistics(
  z_SV: Tensor,
  targets_S: Tensor,
  temperature: number,
  { hasEntropy = true } = {},
): ScoreStatistics {
  if (isKernelRow(z_SV)) {
    const [logprob, entropy, logNormalizer] = scoreStatisticsKernel(z_SV, targets_S, temperature);
    if (!isExact()) return { logprob, entropy, logNormalizer };
    const temperatures_S = full([z_SV.size(0)], temperature, { device: z_SV.device });
    return {
      logprob: sampledLogprobKernel(z_SV, temperatures_S, targets_S.to("int32")),
      entropy,
      logNormalizer,
    };
  }
  const z = tempered(z_SV, temperature);
  const logNormalizer = z.logSumExp(-1);
  const logprob = z.gather(1, targets_S.unsqueeze(1)).squeeze(1).sub(logNormalizer);
  if (!hasEntropy) return { logprob, entropy: logprob, logNormalizer };
  const p = z.sub(logNormalizer.unsqueeze(1)).exp();
  // H = log Z - E[z]; a score of -infinity has no mass, and must not become 0 * -infinity.
  const moment = p.mul_(z.maskedFill(p.eq(0), 0)).sum(-1);
  return { logprob, entropy: logNormalizer.sub(moment), logNormalizer };
}

/** Gradients that arrive at the log-probabilities and entropies of rows; null where nothing depends on them. */
export interface ScoreGradients {
  readonly logprob: Tensor | null;
  readonly entropy: Tensor | null;
}

/**
 * The gradient of the scores: gradLogprob (onehot - p) - gradEntropy p (log p + H), over the temperature. In the type of the scores, unless
 * another is asked for. Reuses the scores' memory where it can: do not use them afterwards.
 */
export function scoreGradient_(
  z_SV: Tensor,
  targets_S: Tensor,
  { logNormalizer, entropy }: Omit<ScoreStatistics, "logprob">,
  grads: ScoreGradients,
  temperature: number,
  dtype = z_SV.dtype,
): Tensor {
  if (isKernelRow(z_SV)) {
    const none = grads.logprob !== null && grads.entropy !== null ? null : zerosLike(logNormalizer);
    const gradLogprob = (grads.logprob ?? none!).contiguous();
    const gradEntropy = (grads.entropy ?? none!).contiguous();
    const row = [targets_S, logNormalizer, entropy, gradLogprob, gradEntropy] as const;
    return scoreGradientKernel_(z_SV, row, temperature, dtype);
  }
  if (grads.logprob === null && grads.entropy === null) return zerosLike(z_SV).to(dtype);
  const column = (x: Tensor) => x.unsqueeze(1);
  const logp = tempered(z_SV, temperature).sub(column(logNormalizer));
  const p = logp.exp();
  const slope =
    grads.entropy === null ? null : logp.add_(column(entropy)).maskedFill(p.eq(0), 0).mul_(column(grads.entropy));
  const sum =
    slope === null ? column(grads.logprob!) : grads.logprob === null ? slope : slope.add_(column(grads.logprob));
  const gradient = p.mul_(sum).mul_(-1);
  if (grads.logprob !== null) ops.scatterAdd_(gradient, 1, column(targets_S), column(grads.logprob));
  return gradient.div_(temperature).to(dtype);
}

/** Whether `scoreRow_` takes these scores. */
export function canScoreRow(z_SV: Tensor): boolean {
  return isKernelRow(z_SV) && fitsScoreRow(z_SV.size(1), z_SV.dtype) && !isExact();
}

/**
 * scoreStatistics and scoreGradient_ in one pass, for a loss that looks at log-probabilities alone: `gradLogprob_S` is what arrives there, or null for
 * ones. The scores are overwritten.
 */
export function scoreRow_(
  z_SV: Tensor,
  targets_S: Tensor,
  gradLogprob_S: Tensor | null,
  temperature: number,
  dtype = z_SV.dtype,
): { readonly statistics: ScoreStatistics; readonly gradient: Tensor } {
  const weights_S = gradLogprob_S?.contiguous() ?? null;
  const { gradient_SV, statistics } = scoreRowKernel_(z_SV, targets_S, weights_S, temperature, dtype);
  const [logprob, entropy, logNormalizer] = statistics;
  return { statistics: { logprob, entropy, logNormalizer }, gradient: gradient_SV };
}

function isKernelRow(z_SV: Tensor): boolean {
  return hasKernels(z_SV) && z_SV.size(1) % 8 === 0 && z_SV.isContiguous;
}

function tempered(z_SV: Tensor, temperature: number): Tensor {
  const z = z_SV.dtype === "float64" ? z_SV : z_SV.to("float32");
  return temperature === 1 ? z : z.div(temperature);
}

/** libtorch crashes on attention without heads, so this is checked here. */
function expectHeads(q_BHTK: Tensor, k_BGCK: Tensor, v_BGCK: Tensor): void {
  const shapes = [q_BHTK.shape, k_BGCK.shape, v_BGCK.shape] as const;
  const [[, H = 0, , K = 0], [, G = 0]] = shapes;
  if (shapes.every((shape) => shape.length === 4) && v_BGCK.shape[1] === G && G > 0 && H > 0 && H % G === 0 && K > 0) {
    return;
  }
  throw new RerollError(
    "SHAPE_MISMATCH",
    `attention takes q [B, H, T, K], k and v [B, G, C, K], with H a multiple of G and none of H, G, K 0: got [${shapes.join("], [")}].`,
  );
}

function varlenFlash(
  q_SHK: Tensor,
  k_SGK: Tensor,
  v_SGK: Tensor,
  queries: PackedRows,
  keys: PackedRows,
  window: number | null,
  scale: number,
): Tensor {
  const left = window === null ? null : window - 1;
  return ops.varlenFlash(
    q_SHK,
    k_SGK,
    v_SGK,
    queries.starts_int32,
    keys.starts_int32,
    queries.maxLength,
    keys.maxLength,
    0,
    true,
    false,
    scale,
    left,
    window === null ? null : 0,
  )[0];
}

const ops = {
  rmsNorm: op("aten::rms_norm"),
  attention: op("aten::scaled_dot_product_attention", { isUnchecked: true }),
  varlenFlash: op("aten::_flash_attention_forward"),
  scatterAdd_: op("aten::scatter_add_"),
} as const;
