/**
 * From scores to tokens: penalties and bias, temperature, filters, one draw per row.
 *
 * Every row is drawn with its own options and its own random number, so a row's token does not depend on its neighbours.
 */
import { pinned, tensor } from "../../torch/create.ts";
import { CudaEvent } from "../../torch/cuda.ts";
import { isExact } from "../../torch/exact.ts";
import { hasKernels } from "../../torch/kernels/cuda-kernel.ts";
import {
  canSample,
  maskedSampleKernel,
  sampledLogprobKernel,
  sampleKernel,
} from "../../torch/kernels/sample-kernel.ts";
import type { RowMasks } from "../../torch/kernels/score-tiles-kernel.ts";
import { op } from "../../torch/operator.ts";
import { areRows, sampleRows } from "../../torch/row-passes.ts";
import { keep } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import type { Sampling, TokenLogprob } from "../generate.ts";
import type { DrawnRows } from "./drawn-rows.ts";
import { drawMasked, forbidden } from "./masked-draw.ts";

/** One row to draw for. */
export interface DrawRequest {
  readonly sampling: Sampling;
  /** The sequence so far; penalties look at it. */
  readonly tokens: Int32Array;
  /** How many of them are the prompt. */
  readonly promptLength: number;
  /** One bit per token, set where it may be drawn; null where all may. */
  readonly mask: Int32Array | null;
  /** In [0, 1): chooses the token. */
  readonly uniform: number;
  readonly numTopLogprobs: number;
}

/** Starts to draw one token per row of [B, V] scores, and returns what waits for them. The scores may go before that. */
export function launchDraws(scores_BV: Tensor, requests: readonly DrawRequest[]): () => DrawnRows {
  const isPlain = requests.every(({ sampling }) => isTemperatureOnly(sampling));
  const isKernel = isPlain && hasKernels(scores_BV) && canSample(scores_BV.size(1));
  const read = isKernel ? launchPlain(scores_BV, requests) : always(drawAtOnce(scores_BV, requests));
  const tops = topLogprobs(scores_BV, requests);
  return tops.length === 0 ? read : () => ({ ...read(), topLogprobs: tops });
}

function always<Value>(value: Value): () => Value {
  return () => value;
}

/** Whether a token is drawn from the model's own scores, at some temperature. */
export function isTemperatureOnly(sampling: Sampling): boolean {
  return !changesScores(sampling) && !filters(sampling);
}

function launchPlain(scores_BV: Tensor, requests: readonly DrawRequest[]): () => DrawnRows {
  const B = requests.length;
  const { device } = scores_BV;
  const column = (pick: (request: DrawRequest) => number) => tensor(Float32Array.from(requests, pick), [B], { device });
  const temperatures_B = column(({ sampling }) => sampling.temperature ?? 1);
  const uniforms_B = column(({ uniform }) => uniform);
  const masks = rowMasks(requests, scores_BV);
  const drawn = masks
    ? maskedSampleKernel(scores_BV, temperatures_B, uniforms_B, masks)
    : sampleKernel(scores_BV, temperatures_B, uniforms_B);
  const out = keep(pinned(drawn.shape, "float32"));
  out.copy_(drawn, { nonBlocking: true });
  const done = new CudaEvent().record();
  return () => {
    done.synchronize();
    const values = out.toFloat32Array();
    for (const one of [out, done]) one.dispose();
    const column = (index: number) => values.subarray(index * B, (index + 1) * B);
    const samplerLogprobs = column(1);
    const drawLogprobs = masks ? column(3) : samplerLogprobs;
    return { tokenIds: column(0), samplerLogprobs, modelLogprobs: column(2), drawLogprobs };
  };
}

/** The masks of the rows that have one, each once; undefined where none has. */
function rowMasks(requests: readonly DrawRequest[], scores_BV: Tensor): RowMasks | undefined {
  const masks = [...new Set(requests.flatMap(({ mask }) => (mask === null ? [] : [mask])))];
  if (masks.length === 0) return undefined;
  const { device } = scores_BV;
  const W = Math.ceil(scores_BV.size(1) / 32);
  const words = new Int32Array(masks.length * W);
  masks.forEach((mask, index) => {
    words.set(mask, index * W);
  });
  const rows = Int32Array.from(requests, ({ mask }) => (mask === null ? -1 : masks.indexOf(mask)));
  return {
    masks_KW: tensor(words, [masks.length, W], { device }),
    masks_B: tensor(rows, [rows.length], { device }),
  };
}

/** Rows that are drawn by temperature alone go through one pass over the scores, whatever their neighbours ask for; the others through `draw`. */
function drawAtOnce(scores_BV: Tensor, requests: readonly DrawRequest[]): DrawnRows {
  const isPassed = requests.map(({ sampling, mask }) => mask === null && isTemperatureOnly(sampling));
  const hasPass = isPassed.includes(true) && areRows([scores_BV]);
  if (!hasPass) return draw(scores_BV, requests);
  const passed = drawRows(scores_BV, requests);
  if (!isPassed.includes(false)) return passed;
  const others = draw(scores_BV, requests);
  const column = (name: Exclude<keyof DrawnRows, "topLogprobs">) =>
    isPassed.map((hasPassed, row) => (hasPassed ? passed : others)[name][row]!);
  return {
    tokenIds: column("tokenIds"),
    samplerLogprobs: column("samplerLogprobs"),
    modelLogprobs: column("modelLogprobs"),
    drawLogprobs: column("drawLogprobs"),
  };
}

/** What `draw` gives by temperature alone. */
function drawRows(scores_BV: Tensor, requests: readonly DrawRequest[]): DrawnRows {
  const { tokens, samplerLogprobs, modelLogprobs } = sampleRows(
    scores_BV,
    Float64Array.from(requests, ({ sampling }) => sampling.temperature ?? 1),
    Float64Array.from(requests, ({ uniform }) => uniform),
  );
  // A draw by temperature alone is from the sampler's own distribution.
  return { tokenIds: tokens, samplerLogprobs, modelLogprobs, drawLogprobs: samplerLogprobs };
}

/** What is drawn, by operators: everything that requests may ask for. */
export function draw(scores_BV: Tensor, requests: readonly DrawRequest[]): DrawnRows {
  const B = requests.length;
  const { device } = scores_BV;
  const column = (pick: (request: DrawRequest) => number) =>
    tensor(Float64Array.from(requests, pick), [B, 1], { device, dtype: "float64" });
  const z_BV = scores_BV.to("float64");
  const masked = asksForMasksAlone(requests) ? drawMasked(z_BV, requests.map(maskedRow)) : undefined;
  if (masked !== undefined) {
    const { tokens, ...logprobs } = masked;
    return { tokenIds: tokens, ...logprobs };
  }
  const model_BV = z_BV.logSoftmax(-1);
  const penalized_BV = requests.some(({ sampling }) => changesScores(sampling)) ? withChanges(z_BV, requests) : z_BV;
  const masks = requests.map(({ mask }) => mask);
  const changed_BV = masks.some((mask) => mask !== null)
    ? penalized_BV.maskedFill(forbidden(masks, z_BV.size(1), device), Number.NEGATIVE_INFINITY)
    : penalized_BV;
  // Temperature 0 is drawn as the best token; any temperature serves for the rest of the row's arithmetic.
  const temperatureOf = ({ sampling }: DrawRequest) => sampling.temperature || 1;
  const isTempered = requests.some((request) => temperatureOf(request) !== 1);
  const temper = (scores: Tensor) => (isTempered ? scores.div(column(temperatureOf)) : scores);
  const tempered_BV = temper(z_BV);
  const sampler_BV = tempered_BV === z_BV ? model_BV : tempered_BV.logSoftmax(-1);
  const allowed_BV = changed_BV === z_BV ? tempered_BV : temper(changed_BV);
  const filtered_BV = requests.some(({ sampling }) => filters(sampling)) ? filter(allowed_BV, column) : allowed_BV;
  const draw_BV = filtered_BV === tempered_BV ? sampler_BV : filtered_BV.logSoftmax(-1);
  const best_B1 = changed_BV.argmax(-1, true);
  const isGreedy_B1 = column(({ sampling }) => (sampling.temperature === 0 ? 1 : 0)).gt(0);
  const uniform_B1 = column(({ uniform }) => uniform);
  const isAllGreedy = requests.every(({ sampling }) => sampling.temperature === 0);
  const token_B1 = isAllGreedy ? best_B1 : best_B1.where(isGreedy_B1, invert(draw_BV, uniform_B1, best_B1));
  const tokens = token_B1.flatten().toArray();
  const isRandom_B1 = isGreedy_B1.logicalNot();
  const logprobsOf = (from_BV: Tensor) => from_BV.gather(1, token_B1).where(isRandom_B1, 0).flatten().toArray();
  // Exact kernels give a token the trainer's number, whatever filter it was drawn through.
  const isShared = isExact() && hasKernels(scores_BV) && canSample(scores_BV.size(1));
  const shared = () =>
    sampledLogprobKernel(scores_BV, column(temperatureOf).flatten().to("float32"), token_B1.flatten().to("int32"));
  const samplerLogprobs = isShared ? shared().where(isRandom_B1.flatten(), 0).toArray() : logprobsOf(sampler_BV);
  const drawLogprobs = draw_BV === sampler_BV ? samplerLogprobs : logprobsOf(draw_BV);
  const modelLogprobs = model_BV.gather(1, token_B1).flatten().toArray();
  return { tokenIds: tokens, samplerLogprobs, modelLogprobs, drawLogprobs };
}

function asksForMasksAlone(requests: readonly DrawRequest[]): boolean {
  const isDrawn = ({ sampling }: DrawRequest) => isTemperatureOnly(sampling) && sampling.temperature !== 0;
  return requests.some(({ mask }) => mask !== null) && requests.every(isDrawn);
}

function maskedRow({ mask, sampling, uniform }: DrawRequest) {
  return { mask, temperature: sampling.temperature ?? 1, uniform };
}

/** The token in whose part of the cumulative distribution the number falls. */
function invert(draw_BV: Tensor, uniform_B1: Tensor, best_B1: Tensor): Tensor {
  const cumulative_BV = draw_BV.exp().cumsum(-1);
  const total_B1 = cumulative_BV.narrow(1, cumulative_BV.size(1) - 1, 1);
  const drawn_B1 = ops.searchSorted(cumulative_BV, total_B1.mul(uniform_B1), false, true);
  // A goal that was rounded up to the total is nobody's: the last token with mass would be as good as the best.
  return best_B1.where(drawn_B1.ge(cumulative_BV.size(1)), drawn_B1);
}

/** Penalties and bias, row by row. */
function withChanges(z_BV: Tensor, requests: readonly DrawRequest[]): Tensor {
  const changed_BV = z_BV.clone();
  requests.forEach(({ sampling, tokens, promptLength }, row) => {
    const row_V = changed_BV.select(0, row);
    const penalty = sampling.repetitionPenalty ?? 1;
    if (penalty !== 1) {
      const seen = indices([...new Set(tokens)], z_BV.device);
      const score = row_V.indexSelect(0, seen);
      row_V.indexCopy_(0, seen, score.div(penalty).where(score.gt(0), score.mul(penalty)));
    }
    const bias = [...(sampling.logitBias ?? []), ...replyPenalties(sampling, tokens.subarray(promptLength))];
    if (bias.length > 0) {
      const values = tensor(
        Float64Array.from(bias, ([, value]) => value),
        [bias.length],
        { device: z_BV.device },
      );
      row_V.indexAdd_(
        0,
        indices(
          bias.map(([id]) => id),
          z_BV.device,
        ),
        values,
      );
    }
  });
  return changed_BV;
}

/** What frequency and presence penalties add to the scores of the reply's own tokens, which is as OpenAI defines them. */
function replyPenalties(sampling: Sampling, reply: Int32Array): Iterable<[tokenId: number, change: number]> {
  const { frequencyPenalty = 0, presencePenalty = 0 } = sampling;
  if (frequencyPenalty === 0 && presencePenalty === 0) return [];
  const counts = new Map<number, number>();
  for (const tokenId of reply) counts.set(tokenId, (counts.get(tokenId) ?? 0) + 1);
  return Array.from(counts, ([tokenId, count]) => [tokenId, -frequencyPenalty * count - presencePenalty]);
}

/** Top-k, then top-p of what is left, then min-p. Scores of tokens that fall out become -infinity. */
function filter(z_BV: Tensor, column: (pick: (request: DrawRequest) => number) => Tensor): Tensor {
  const V = z_BV.size(1);
  const none = Number.NEGATIVE_INFINITY;
  const [sorted_BV, order_BV] = z_BV.sort(-1, true);
  const rank_BV = ops.arange(V, "int64", null, z_BV.device).unsqueeze(0);
  const topK_B1 = column(({ sampling }) => sampling.topK || V);
  const inTopK_BV = rank_BV.lt(topK_B1);
  const p_BV = sorted_BV.maskedFill(inTopK_BV.logicalNot(), none).softmax(-1);
  const massBefore_BV = p_BV.cumsum(-1).sub(p_BV);
  const topP_B1 = column(({ sampling }) => sampling.topP ?? 1);
  const minP_B1 = column(({ sampling }) => sampling.minP ?? 0);
  // Rounding must not cut the tail of a row that asks for all of it.
  const inTopP_BV = massBefore_BV.lt(topP_B1).logicalOr(topP_B1.ge(1));
  const isLikely_BV = p_BV.ge(p_BV.narrow(1, 0, 1).mul(minP_B1));
  const kept_BV = inTopK_BV.logicalAnd(inTopP_BV).logicalAnd(isLikely_BV).logicalOr(rank_BV.eq(0));
  const dropped_BV = kept_BV.logicalNot().scatter(1, order_BV, kept_BV.logicalNot());
  return z_BV.maskedFill(dropped_BV, none);
}

function topLogprobs(scores_BV: Tensor, requests: readonly DrawRequest[]): TokenLogprob[][] {
  const most = Math.min(Math.max(0, ...requests.map(({ numTopLogprobs }) => numTopLogprobs)), scores_BV.size(1));
  if (most === 0) return [];
  const [values, ids] = scores_BV.to("float32").logSoftmax(-1).topk(most);
  const [logprobs, tokenIds] = [values.toArray(), ids.toArray()];
  return requests.map(({ numTopLogprobs }, row) =>
    Array.from({ length: Math.min(numTopLogprobs, most) }, (_, i) => ({
      tokenId: tokenIds[row * most + i]!,
      logprob: logprobs[row * most + i]!,
    })),
  );
}

function changesScores({
  repetitionPenalty = 1,
  frequencyPenalty = 0,
  presencePenalty = 0,
  logitBias,
}: Sampling): boolean {
  const hasBias = logitBias !== undefined && logitBias.size > 0;
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0 || hasBias;
}

function filters({ topK = 0, topP = 1, minP = 0 }: Sampling): boolean {
  return topK > 0 || topP < 1 || minP > 0;
}

function indices(ids: readonly number[], device: string): Tensor {
  return tensor(Int32Array.from(ids), [ids.length], { device, dtype: "int64" });
}

const ops = {
  searchSorted: op("aten::searchsorted.Tensor", { isUnchecked: true }),
  arange: op("aten::arange"),
} as const;
