/** Attention from plain operators: for libtorch without a fused one, and for scores that no fused one computes. */
import { arange, cat, zeros } from "./create.ts";
import type { Device, DType } from "./dtype.ts";
import { op } from "./operator.ts";
import type { Tensor } from "./tensor.ts";

/** True where query i of the last T of C positions may see key j. */
export function causalMask(T: number, C: number, window: number | null, device: string): Tensor {
  const query_T1 = arange(C - T, C, { device }).unsqueeze(1);
  const key_1C = arange(0, C, { device }).unsqueeze(0);
  const past_TC = key_1C.le(query_T1);
  return window === null ? past_TC : past_TC.logicalAnd(key_1C.gt(query_T1.sub(window)));
}

/** How scores are changed before the softmax: see AttentionOptions. */
interface ScoreOptions {
  readonly scale: number;
  readonly softCap: number | null;
  readonly sinks_H: Tensor | null;
}

/** softmax(cap(q k' * scale) + mask, with sinks) v. The mask is true where a query may see a key. */
export function composedAttention(
  q_BHTK: Tensor,
  k_BGCK: Tensor,
  v_BGCK: Tensor,
  mask: Tensor | null,
  { scale, softCap, sinks_H }: ScoreOptions,
): Tensor {
  const [B, H, T, K] = q_BHTK.shape as [number, number, number, number];
  const [, G, C] = k_BGCK.shape as [number, number, number];
  // The query heads of one key head become rows of one product: keys and values are not repeated.
  const rows = (H / G) * T;
  const q_NRK = q_BHTK.reshape(B * G, rows, K);
  const k_NCK = k_BGCK.reshape(B * G, C, K);
  const v_NCK = v_BGCK.reshape(B * G, C, K);
  // Scale and mask go into the product: as steps of their own each would be a pass over all scores, and one more backward.
  const bias = mask === null ? zeros([1, 1, 1], place(q_BHTK)) : scoreBias(mask, [B, G, H / G, T, C], q_BHTK);
  // beta is 1 also for a bias of zeros: with 0 libtorch 1.13 multiplies what happens to be in memory, which may be NaN.
  const product = (added: Tensor) => ops.baddbmm(added, q_NRK, k_NCK.transpose(1, 2), 1, scale);
  const scores_NRC =
    softCap === null
      ? product(bias)
      : product(zeros([1, 1, 1], place(q_BHTK)))
          .div(softCap)
          .tanh()
          .mul(softCap)
          .add(bias);
  const sinks_NR1 =
    sinks_H
      ?.view(1, G, H / G, 1)
      .expand(B, G, H / G, T)
      .reshape(B * G, rows, 1) ?? null;
  return attentionWeights(scores_NRC, sinks_NR1).bmm(v_NCK).view(B, H, T, K);
}

/** The softmax of each row, in float32. A sink takes part in it and is left out of the result. */
function attentionWeights(scores_NRC: Tensor, sinks_NR1: Tensor | null): Tensor {
  const { dtype } = scores_NRC;
  const isHalf = dtype === "bfloat16" || dtype === "float16";
  const all = sinks_NR1 === null ? scores_NRC : cat([scores_NRC, sinks_NR1.to(dtype)], -1);
  const weights = isHalf ? all.to("float32").softmax(-1).to(dtype) : all.softmax(-1);
  return sinks_NR1 === null ? weights : weights.narrow(-1, 0, scores_NRC.size(2));
}

/** 0 where a query may see a key and -infinity elsewhere, in the shape of the scores (or one that spreads to it). */
function scoreBias(
  mask: Tensor,
  [B, G, perGroup, T, C]: readonly [number, number, number, number, number],
  like: Tensor,
): Tensor {
  const bias = zeros(mask.shape, place(like)).maskedFill(mask.logicalNot(), Number.NEGATIVE_INFINITY);
  if (mask.shape.length === 2) return bias.expand(1, perGroup, T, C).reshape(1, perGroup * T, C);
  return bias.expand(B, G * perGroup, T, C).reshape(B * G, perGroup * T, C);
}

function place(like: Tensor): { dtype: DType; device: Device } {
  return { dtype: like.dtype, device: like.device };
}

const ops = { baddbmm: op("aten::baddbmm") } as const;
