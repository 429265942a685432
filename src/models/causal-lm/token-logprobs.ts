/**
 * Log-probabilities and entropy of chosen tokens, without ever holding the scores of all tokens.
 *
 * The scores [S, V] of a batch can be many times the size of the model. They are computed a few tokens at a time, and
 * again in the backward pass unless their gradients are known or foreseen, so the peak is one chunk of them.
 */
import { applyFunction, isGradEnabled } from "../../torch/autograd.ts";
import { cat } from "../../torch/create.ts";
import { equalLater } from "../../torch/equal-later.ts";
import {
  canScoreRow,
  type ScoreGradients,
  type ScoreStatistics,
  scaledTo,
  scoreGradient_,
  scoreRow_,
  scoreStatistics,
} from "../../torch/fused.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { defaultChunk, expectChunks, mapChunks, type Part, ScoreGradientSums } from "./score-chunks.ts";
import { hasWideScores, softCapped, softCapSlope, tokenScores } from "./token-scores.ts";

export interface TokenLogprobOptions {
  /** Scores are divided by this first. Default 1. */
  readonly temperature?: number;
  /** Tokens per chunk. Default: what keeps a chunk of scores, in the type of the weights, at 64 MB on the CPU and 2.5 GB on a GPU. */
  readonly chunkTokens?: number;
  /** Scores are bent to stay within this before they are divided: see softCapped. Default null, which bends nothing. */
  readonly softCap?: number | null;
  /**
   * The gradients that will arrive at the log-probabilities and entropies of a chunk, from those of that chunk. Then the gradient of
   * the scores is computed with them, in one pass. A foresight that turns out wrong costs time and changes nothing: the backward pass
   * compares, and computes again. Default: gradients are awaited.
   */
  readonly foresee?: Foresight;
}

/** From log-probabilities and entropies of some tokens to their gradients. `part` takes these tokens out of a tensor of all. */
export interface Foresight {
  (statistics: Omit<ScoreStatistics, "logNormalizer">, part: Part): ScoreGradients;
  /** The same where it takes no statistics. */
  readonly ahead?: (part: Part) => ScoreGradients;
  /** Whether entropies get no gradient. Where that turns out wrong, scores are computed again. Default: nobody knows. */
  readonly sparesEntropy?: boolean;
}

/** One value per token, float32. */
export interface TokenLogprobs {
  readonly logprobs_S: Tensor;
  /** Entropy of the whole next-token distribution, in nats. */
  readonly entropy_S: Tensor;
}

/** log p(target) and the entropy of p at each token, p = softmax(hidden head' / temperature). Differentiable in both. */
export function tokenLogprobs(
  hidden_SD: Tensor,
  head_VD: Tensor,
  targets_S: Tensor,
  { temperature = 1, chunkTokens = defaultChunk(head_VD), softCap = null, foresee }: TokenLogprobOptions = {},
): TokenLogprobs {
  expectChunks(temperature, chunkTokens);
  const isTrained = isGradEnabled() && (hidden_SD.requiresGrad || head_VD.requiresGrad);
  const foresight = isTrained ? foresee : undefined;
  // A chunk of wide scores takes a third more room than one of 16 bits, not twice as much.
  const isCut = hasWideScores(hidden_SD);
  /** Which of the gradients that were foreseen there are: those of hidden states, output matrix, log-probabilities and entropies. */
  let isForeseen: readonly boolean[] = [];
  const [logprobs_S, entropy_S] = applyFunction(
    {
      forward: ([hidden, head]) => {
        const sums = foresight && new ScoreGradientSums(hidden!, head!, head_VD.requiresGrad);
        const parts = mapChunks(hidden!, isCut ? Math.ceil((2 * chunkTokens) / 3) : chunkTokens, (part) => {
          const scores = () => softCapped(tokenScores(part(hidden!), head!), softCap);
          let z = scores();
          const slope = sums === undefined ? null : softCapSlope(z, softCap);
          const bent = (gradient: Tensor) => (slope === null ? gradient : gradient.mul_(slope));
          const ahead = foresight?.ahead?.(part) ?? null;
          const isPlain = ahead === null ? foresight?.sparesEntropy === true : ahead.entropy === null;
          if (sums !== undefined && isPlain && canScoreRow(z)) {
            const weights = ahead?.logprob ?? null;
            const { statistics, gradient } = scoreRow_(z, part(targets_S), weights, temperature, hidden!.dtype);
            const grads = ahead ?? foresight!(statistics, part);
            if (grads.logprob !== null && grads.entropy === null) {
              sums.add(part, bent(gradient), weights === null ? grads.logprob : null);
              return { statistics, grads };
            }
            z = scores();
          }
          const statistics = scoreStatistics(z, part(targets_S), temperature);
          const grads = foresight?.(statistics, part) ?? unknown;
          if (sums !== undefined)
            sums.add(part, bent(scoreGradient_(z, part(targets_S), statistics, grads, temperature, hidden!.dtype)));
          return { statistics, grads };
        });
        const join = (key: keyof ScoreStatistics) => cat(parts.map(({ statistics }) => statistics[key]));
        const foreseen = [
          ...(sums?.wideResults() ?? []),
          joinKnown(parts.map(({ grads }) => grads.logprob)),
          joinKnown(parts.map(({ grads }) => grads.entropy)),
        ];
        isForeseen = foreseen.map((gradient) => gradient !== null);
        const entropy = join("entropy");
        return {
          outputs: [join("logprob"), entropy],
          saved: [hidden!, head!, targets_S, join("logNormalizer"), entropy, ...foreseen.filter((one) => one !== null)],
        };
      },
      backward: ([gradLogprob = null, gradEntropy = null], saved) => {
        const [hidden, head, targets, logNormalizer, entropy, ...known] = saved as TrainedScores;
        if (foresight !== undefined) {
          const foreseen = isForeseen.map((isKnown) => (isKnown ? known.shift()! : null));
          const [gradHidden = null, gradHead = null, logprob = null, ofEntropy = null] = foreseen;
          const answers = [isEqual(logprob, gradLogprob), isEqual(ofEntropy, gradEntropy)];
          // A GPU has something to do until its answer is here and the next layer is on its way.
          const narrowed = gradHead?.to(head.dtype) ?? null;
          if (answers.map((isRight) => isRight()).every(Boolean)) return [gradHidden, narrowed];
        }
        const sums = new ScoreGradientSums(hidden, head, head_VD.requiresGrad);
        mapChunks(hidden, chunkTokens, (part) => {
          const grads = { logprob: gradLogprob && part(gradLogprob), entropy: gradEntropy && part(gradEntropy) };
          const z = softCapped(ops.linear(part(hidden), head), softCap);
          const slope = softCapSlope(z, softCap);
          // The gradient of scores in 16 bits, which is half the memory, takes their own sums: with those of others p would not add up to 1.
          const statistics = hasWideScores(hidden)
            ? scoreStatistics(z, part(targets), temperature)
            : { logNormalizer: part(logNormalizer), entropy: part(entropy) };
          const gradient = scoreGradient_(z, part(targets), statistics, grads, temperature);
          sums.add(part, slope === null ? gradient : gradient.mul_(slope));
        });
        return sums.results();
      },
    },
    [hidden_SD, head_VD],
  );
  return { logprobs_S: logprobs_S!, entropy_S: entropy_S! };
}

type TrainedScores = [Tensor, Tensor, Tensor, Tensor, Tensor, ...Tensor[]];

const unknown: ScoreGradients = { logprob: null, entropy: null };

function joinKnown(parts: readonly (Tensor | null)[]): Tensor | null {
  const known = parts.filter((part) => part !== null);
  return known.length === parts.length ? cat(known) : null;
}

/** Whether what was foreseen is what came, to the bit. The answer waits for the device. */
function isEqual(foreseen: Tensor | null, came: Tensor | null): () => boolean {
  return foreseen === null || came === null ? () => foreseen === came : equalLater(foreseen, came);
}

/**
 * -sum(weights * log p(target)) and the log-probabilities behind it. The weights are known beforehand, as in supervised
 * training, so the gradient is computed with the loss: a third less work on the scores than tokenLogprobs.
 */
export function weightedCrossEntropy(
  hidden_SD: Tensor,
  head_VD: Tensor,
  targets_S: Tensor,
  weights_S: Tensor,
  { temperature = 1, chunkTokens = defaultChunk(head_VD), softCap = null }: TokenLogprobOptions = {},
): { readonly loss: Tensor; readonly logprobs_S: Tensor } {
  expectChunks(temperature, chunkTokens);
  const { dtype } = hidden_SD;
  let logprobs_S: Tensor | null = null;
  const isTrained = isGradEnabled() && (hidden_SD.requiresGrad || head_VD.requiresGrad);
  const [loss] = applyFunction(
    {
      forward: ([hidden, head]) => {
        const sums = isTrained ? new ScoreGradientSums(hidden!, head!, head_VD.requiresGrad) : null;
        const parts = mapChunks(hidden!, chunkTokens, (part) => {
          const z = softCapped(ops.linear(part(hidden!), head!), softCap);
          const slope = softCapSlope(z, softCap);
          const bent = (gradient: Tensor) => (slope === null ? gradient : gradient.mul_(slope));
          const grads = { logprob: part(weights_S).neg(), entropy: null };
          if (sums !== null && canScoreRow(z)) {
            const { statistics, gradient } = scoreRow_(z, part(targets_S), grads.logprob, temperature);
            sums.add(part, bent(gradient));
            return statistics.logprob;
          }
          const statistics = scoreStatistics(z, part(targets_S), temperature, { hasEntropy: false });
          if (sums !== null) sums.add(part, bent(scoreGradient_(z, part(targets_S), statistics, grads, temperature)));
          return statistics.logprob;
        });
        logprobs_S = cat(parts);
        const saved = sums?.wideResults().filter((gradient) => gradient !== null) ?? [];
        return { outputs: [logprobs_S.mul(weights_S).sum().neg()], saved };
      },
      backward: ([grad], saved) => {
        const [gradHidden, gradHead] = saved.map((gradient) => scaledTo(gradient, grad!, dtype));
        return [gradHidden!, gradHead ?? null];
      },
    },
    [hidden_SD, head_VD],
  );
  return { loss: loss!, logprobs_S: logprobs_S! };
}

const ops = { linear: op("aten::linear") } as const;
