/**
 * Log-probabilities and entropy of chosen tokens, without ever holding the scores of all tokens.
 *
 * The scores [S, V] of a batch can be many times the size of the model. They are computed a few tokens at a time, and
 * again in the backward pass, so the peak is one chunk of them.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { applyFunction, isGradEnabled } from "../../torch/autograd.ts";
import { cat, empty, zeros } from "../../torch/create.ts";
import { bytesOf } from "../../torch/dtype.ts";
import { type ScoreStatistics, scoreGradient_, scoreStatistics } from "../../torch/fused.ts";
import { op } from "../../torch/operator.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { hasWideScores, tokenScores } from "./token-scores.ts";

export interface TokenLogprobOptions {
  /** Scores are divided by this first. Default 1. */
  readonly temperature?: number;
  /** Tokens per chunk. Default: what keeps a chunk of scores, in the type of the weights, at 64 MB on the CPU and 1 GB on a GPU. */
  readonly chunkTokens?: number;
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
  { temperature = 1, chunkTokens = defaultChunk(head_VD) }: TokenLogprobOptions = {},
): TokenLogprobs {
  expectOptions(temperature, chunkTokens);
  const [logprobs_S, entropy_S] = applyFunction(
    {
      forward: ([hidden, head]) => {
        const parts = mapChunks(hidden!.size(0), chunkTokens, (part) =>
          scoreStatistics(tokenScores(part(hidden!), head!), part(targets_S), temperature),
        );
        const join = (key: keyof ScoreStatistics) => cat(parts.map((statistics) => statistics[key]));
        const entropy = join("entropy");
        return {
          outputs: [join("logprob"), entropy],
          saved: [hidden!, head!, targets_S, join("logNormalizer"), entropy],
        };
      },
      backward: ([gradLogprob = null, gradEntropy = null], saved) => {
        const [hidden, head, targets, logNormalizer, entropy] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor];
        const sums = new ScoreGradientSums(hidden, head, head_VD.requiresGrad);
        mapChunks(hidden.size(0), chunkTokens, (part) => {
          const grads = { logprob: gradLogprob && part(gradLogprob), entropy: gradEntropy && part(gradEntropy) };
          const z = ops.linear(part(hidden), head);
          // The gradient of scores in 16 bits, which is half the memory, takes their own sums: with those of others p would not add up to 1.
          const statistics = hasWideScores(hidden)
            ? scoreStatistics(z, part(targets), temperature)
            : { logNormalizer: part(logNormalizer), entropy: part(entropy) };
          sums.add(part, scoreGradient_(z, part(targets), statistics, grads, temperature));
        });
        return sums.results();
      },
    },
    [hidden_SD, head_VD],
  );
  return { logprobs_S: logprobs_S!, entropy_S: entropy_S! };
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
  { temperature = 1, chunkTokens = defaultChunk(head_VD) }: TokenLogprobOptions = {},
): { readonly loss: Tensor; readonly logprobs_S: Tensor } {
  expectOptions(temperature, chunkTokens);
  let logprobs_S: Tensor | null = null;
  const isTrained = isGradEnabled() && (hidden_SD.requiresGrad || head_VD.requiresGrad);
  const [loss] = applyFunction(
    {
      forward: ([hidden, head]) => {
        const sums = isTrained ? new ScoreGradientSums(hidden!, head!, head_VD.requiresGrad) : null;
        const parts = mapChunks(hidden!.size(0), chunkTokens, (part) => {
          const z = ops.linear(part(hidden!), head!);
          const statistics = scoreStatistics(z, part(targets_S), temperature, { hasEntropy: false });
          const grads = { logprob: part(weights_S).neg(), entropy: null };
          sums?.add(part, scoreGradient_(z, part(targets_S), statistics, grads, temperature));
          return statistics.logprob;
        });
        logprobs_S = cat(parts);
        const saved = sums?.results().filter((gradient) => gradient !== null) ?? [];
        return { outputs: [logprobs_S.mul(weights_S).sum().neg()], saved };
      },
      backward: ([grad], saved) => {
        const [gradHidden, gradHead] = saved.map((gradient) => gradient.mul(grad!.to(gradient.dtype)));
        return [gradHidden!, gradHead ?? null];
      },
    },
    [hidden_SD, head_VD],
  );
  return { loss: loss!, logprobs_S: logprobs_S! };
}

function expectOptions(temperature: number, chunkTokens: number): void {
  if (!(temperature > 0 && temperature < Infinity)) {
    throw new RerollError("INVALID_ARGUMENT", `temperature must be above 0 and finite: got ${temperature}.`);
  }
  if (!Number.isInteger(chunkTokens) || chunkTokens < 1) {
    throw new RerollError("INVALID_ARGUMENT", `chunkTokens must be an integer of at least 1: got ${chunkTokens}.`);
  }
}

/** Takes one chunk out of a tensor with a row per token. */
type Part = (x: Tensor) => Tensor;

/** Turns gradients of scores, a chunk at a time, into gradients of the hidden states and the output matrix. */
class ScoreGradientSums {
  readonly #hidden: Tensor;
  readonly #head: Tensor;
  readonly #gradHidden: Tensor;
  readonly #gradHead: Tensor | null;

  constructor(hidden: Tensor, head: Tensor, isHeadTrained: boolean) {
    this.#hidden = hidden;
    this.#head = head;
    this.#gradHidden = empty(hidden.shape, { dtype: hidden.dtype, device: hidden.device });
    // Added up in float32: sums of many 16-bit parts lose digits.
    const dtype = head.dtype === "float64" ? "float64" : "float32";
    this.#gradHead = isHeadTrained ? zeros(head.shape, { dtype, device: head.device }) : null;
  }

  add(part: Part, gradScores: Tensor): void {
    part(this.#gradHidden).copy_(gradScores.mm(this.#head));
    this.#gradHead?.add_(gradScores.t().mm(part(this.#hidden)));
  }

  results(): [gradHidden: Tensor, gradHead: Tensor | null] {
    return [this.#gradHidden, this.#gradHead?.to(this.#head.dtype) ?? null];
  }
}

/** Runs `body` on pieces of at most `size` tokens, as equal as they can be, freeing what each piece made. */
function mapChunks<Result>(total: number, size: number, body: (part: Part) => Result): Result[] {
  const count = Math.max(1, Math.ceil(total / size));
  return Array.from({ length: count }, (_, i) => {
    const start = Math.floor((i * total) / count);
    const length = Math.floor(((i + 1) * total) / count) - start;
    return tensorScope(() => body((x) => x.narrow(0, start, length)));
  });
}

function defaultChunk(head_VD: Tensor): number {
  const bytes = head_VD.device === "cpu" ? 64e6 : 1e9;
  return Math.max(1, Math.floor(bytes / (bytesOf(head_VD.dtype) * head_VD.size(0))));
}

const ops = { linear: op("aten::linear") } as const;
