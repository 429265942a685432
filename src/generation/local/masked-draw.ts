/**
 * Draws by temperature and masks alone, which is what constrained replies ask for.
 *
 * What a mask forbids loses its probability, and what is left is drawn from: no second softmax over the whole vocabulary, and of each mask
 * only the tokens that are in the minority are touched.
 */
import { tensor } from "../../torch/create.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";

interface MaskedRow {
  /** One bit per token, set where it may be drawn; null where all may. */
  readonly mask: Int32Array | null;
  readonly temperature: number;
  /** In [0, 1): chooses the token. */
  readonly uniform: number;
}

/** Less than this is too close to what float64 cannot hold. */
const LEAST_MASS = 1e-250;

/**
 * Token, sampler, model and draw log-prob of each row of [B, V] float64 scores. Undefined where a row has next to nothing to draw from:
 * its scores have to be compared among themselves.
 */
export function drawMasked(z_BV: Tensor, rows: readonly MaskedRow[]) {
  const [B, V] = [rows.length, z_BV.size(1)];
  const column = (pick: (row: MaskedRow) => number) =>
    tensor(Float64Array.from(rows, pick), [B, 1], { device: z_BV.device, dtype: "float64" });
  const model_BV = z_BV.logSoftmax(-1);
  const isPlain = rows.every(({ temperature }) => temperature === 1);
  const sampler_BV = isPlain ? model_BV : z_BV.div(column(({ temperature }) => temperature)).logSoftmax(-1);
  const weights_BV = sampler_BV.exp();
  const masks = rows.map(({ mask }) => mask);
  forbid(weights_BV, masks);
  const cumulative_BV = weights_BV.cumsum(-1);
  const total_B1 = cumulative_BV.narrow(1, V - 1, 1);
  const totals = total_B1.flatten().toArray();
  if (!totals.every((total) => total > LEAST_MASS)) return undefined;
  const goal_B1 = total_B1.mul(column(({ uniform }) => uniform));
  const drawn_B1 = ops.searchSorted(cumulative_BV, goal_B1, false, true);
  // A goal that was rounded up to the total is nobody's: the best token takes it.
  const isNobodys = drawn_B1
    .flatten()
    .toArray()
    .some((id) => id >= V);
  const token_B1 = isNobodys ? weights_BV.argmax(-1, true).where(drawn_B1.ge(V), drawn_B1) : drawn_B1;
  const tokens = token_B1.flatten().toArray();
  const logprobsOf = (from_BV: Tensor) => from_BV.gather(1, token_B1).flatten().toArray();
  const samplerLogprobs = logprobsOf(sampler_BV);
  const modelLogprobs = isPlain ? samplerLogprobs : logprobsOf(model_BV);
  const drawLogprobs = samplerLogprobs.map((logprob, row) =>
    rows[row]!.mask === null ? logprob : logprob - Math.log(totals[row]!),
  );
  return { tokens, samplerLogprobs, modelLogprobs, drawLogprobs };
}

/** True where a mask forbids the token, [B, V]. The bits travel as they are and are taken apart on the device. */
export function forbidden(masks: readonly (Int32Array | null)[], V: number, device: string): Tensor {
  const [B, W] = [masks.length, Math.ceil(V / 32)];
  const words = new Int32Array(B * W).fill(-1);
  masks.forEach((mask, row) => {
    if (mask !== null) words.set(mask, row * W);
  });
  const words_BW1 = tensor(words, [B, W, 1], { device });
  const bits_32 = ops.arange(32, "int32", null, device);
  return ops
    .bitAnd(ops.shiftRight(words_BW1, bits_32), 1)
    .eq(0)
    .view(B, W * 32)
    .narrow(1, 0, V);
}

/** Sets the weights of tokens that a mask forbids to 0, in place. */
function forbid(weights_BV: Tensor, masks: readonly (Int32Array | null)[]): void {
  const [B, V] = weights_BV.shape as [number, number];
  const { device } = weights_BV;
  // A GPU takes bits apart faster than places reach it.
  if (device !== "cpu" || B * V >= 2 ** 31)
    return void weights_BV.copy_(weights_BV.maskedFill(forbidden(masks, V, device), 0));
  const outs: number[] = [];
  const ins: number[] = [];
  const emptied: number[] = [];
  masks.forEach((mask, row) => {
    if (mask === null) return;
    const isMostlyOut = 2 * numBits(mask) < V;
    if (isMostlyOut) emptied.push(row);
    pushBits(isMostlyOut ? ins : outs, mask, isMostlyOut ? 0 : -1, row * V, V);
  });
  const indices = (ids: readonly number[]) => tensor(Int32Array.from(ids), [ids.length], { dtype: "int64" });
  const flat = weights_BV.view(-1);
  if (outs.length > 0) ops.indexFill(flat, 0, indices(outs), 0).dispose();
  if (emptied.length === 0) return;
  const places = indices(ins);
  const kept = flat.indexSelect(0, places);
  ops.indexFill(weights_BV, 0, indices(emptied), 0).dispose();
  flat.indexCopy_(0, places, kept);
}

/** The places of the bits of a mask, or of those that it lacks with `flip` -1, counted from `offset`. */
function pushBits(places: number[], mask: Int32Array, flip: 0 | -1, offset: number, V: number): void {
  for (let word = 0; word < mask.length; word++) {
    for (let bits = mask[word]! ^ flip; bits !== 0; bits &= bits - 1) {
      const id = 32 * word + 31 - Math.clz32(bits & -bits);
      if (id < V) places.push(offset + id);
    }
  }
}

function numBits(mask: Int32Array): number {
  let count = 0;
  for (let word = 0; word < mask.length; word++) {
    // The bits of pairs, of fours, and of all bytes, added up in place.
    let bits = mask[word]!;
    bits -= (bits >>> 1) & 0x55555555;
    bits = (bits & 0x33333333) + ((bits >>> 2) & 0x33333333);
    count += Math.imul((bits + (bits >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return count;
}

const ops = {
  searchSorted: op("aten::searchsorted.Tensor", { isUnchecked: true }),
  indexFill: op("aten::index_fill_.int_Scalar"),
  arange: op("aten::arange"),
  shiftRight: op("aten::bitwise_right_shift.Tensor"),
  bitAnd: op("aten::bitwise_and.Scalar"),
} as const;
