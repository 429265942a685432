/**
 * Log-probabilities and entropy of chosen tokens where ranks have a part of the vocabulary each: no rank ever holds the scores of all of
 * it, not even for one token. What ranks tell each other are five numbers per token.
 */
import { applyFunction } from "../../torch/autograd.ts";
import { cat, stack } from "../../torch/create.ts";
import type { Collective } from "../../torch/distributed/collective.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { expectChunks, mapChunks, ScoreGradientSums } from "./score-chunks.ts";
import type { TokenLogprobs } from "./token-logprobs.ts";
import { tokenScores } from "./token-scores.ts";

interface SplitLogprobOptions {
  readonly temperature: number;
  /** Tokens per chunk, equal on all ranks. */
  readonly chunkTokens: number;
  readonly ranks: Collective;
  /** The token of the first row of this rank's output matrix. */
  readonly start: number;
}

/** As `tokenLogprobs`, where `head_VD` has the rows of the tokens from `start` on. Call it on all ranks. */
export function splitTokenLogprobs(
  hidden_SD: Tensor,
  head_VD: Tensor,
  targets_S: Tensor,
  { temperature, chunkTokens, ranks, start }: SplitLogprobOptions,
): TokenLogprobs {
  expectChunks(temperature, chunkTokens);
  const scoresOf = (hidden: Tensor, head: Tensor) => tokenScores(hidden, head).to("float32").div_(temperature);
  const placesOf = (targets: Tensor, head: Tensor) => {
    const places = targets.sub(start);
    const isHere = places
      .ge(0)
      .logicalAnd(places.lt(head.size(0)))
      .to("float32");
    return { places: places.clamp(0, head.size(0) - 1).unsqueeze(1), isHere };
  };
  const [logprobs_S, entropy_S] = applyFunction(
    {
      forward: ([hidden, head]) => {
        const parts = mapChunks(hidden!, chunkTokens, (part) => {
          const z = scoresOf(part(hidden!), head!);
          const { places, isHere } = placesOf(part(targets_S), head!);
          const most = ranks.reduce_(z.amax([-1]).contiguous(), "max");
          const exp = z.sub(most.unsqueeze(1)).exp();
          const target = z.gather(1, places).squeeze(1).mul(isHere);
          const sums = ranks.reduce_(stack([exp.sum(-1), exp.mul(z).sum(-1), target]));
          const [total, weighted, own] = [sums.select(0, 0), sums.select(0, 1), sums.select(0, 2)];
          const logNormalizer = most.add(total.log());
          return {
            logprob: own.sub(logNormalizer),
            entropy: logNormalizer.sub(weighted.div(total)),
            logNormalizer,
          };
        });
        const join = (key: "logprob" | "entropy" | "logNormalizer") => cat(parts.map((one) => one[key]));
        const entropy = join("entropy");
        return {
          outputs: [join("logprob"), entropy],
          saved: [hidden!, head!, targets_S, join("logNormalizer"), entropy],
        };
      },
      backward: ([gradLogprob = null, gradEntropy = null], saved) => {
        const [hidden, head, targets, logNormalizer, entropy] = saved as [Tensor, Tensor, Tensor, Tensor, Tensor];
        const nothing = entropy.mul(0);
        const grads = ranks.reduce_(stack([gradLogprob ?? nothing, gradEntropy ?? nothing]));
        const sums = new ScoreGradientSums(hidden, head, head_VD.requiresGrad);
        mapChunks(hidden, chunkTokens, (part) => {
          const column = (values: Tensor) => part(values).unsqueeze(1);
          const logp = scoresOf(part(hidden), head).sub_(column(logNormalizer));
          const { places, isHere } = placesOf(part(targets), head);
          const [ofLogprob, ofEntropy] = [column(grads.select(0, 0)), column(grads.select(0, 1))];
          // d logp(target) = onehot - p, d entropy = -p (log p + entropy).
          const weight = logp.add(column(entropy)).mul_(ofEntropy).add_(ofLogprob).mul_(-1);
          const gradient = logp.exp().mul_(weight);
          ops.scatterAdd_(gradient, 1, places, ofLogprob.mul(isHere.unsqueeze(1)));
          sums.add(part, gradient.div_(temperature).to(head.dtype));
        });
        return sums.results();
      },
    },
    [hidden_SD, head_VD],
  );
  return { logprobs_S: logprobs_S!, entropy_S: entropy_S! };
}

const ops = { scatterAdd_: op("aten::scatter_add_") } as const;
