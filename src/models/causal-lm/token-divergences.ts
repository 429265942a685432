/**
 * How far the next-token distributions of two models are apart, without ever holding the scores of all tokens.
 *
 * Both models' scores are computed a few tokens at a time, and again in the backward pass, so the peak is one chunk of each.
 */
import { applyFunction } from "../../torch/autograd.ts";
import { cat } from "../../torch/create.ts";
import { op } from "../../torch/operator.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { defaultChunk, expectChunks, mapChunks, ScoreGradientSums } from "./score-chunks.ts";
import { softCapped, softCapSlope } from "./token-scores.ts";

/**
 * forward: KL(teacher || policy), which covers everything the teacher would say. reverse: KL(policy || teacher), which keeps to
 * what the teacher finds likely. jsd: the mean of the KLs of both to their mean, which is bounded by log 2.
 */
export type Divergence = "forward" | "reverse" | "jsd";

/** The last hidden states at some tokens, and the matrix that makes scores of them. */
interface ScoreSource {
  readonly hidden_SD: Tensor;
  readonly head_VD: Tensor;
  /** What the model's scores are bent to stay within: see softCapped. */
  readonly softCap: number | null;
}

interface DivergenceOptions {
  readonly divergence: Divergence;
  /** Both scores are divided by this first. Default 1. */
  readonly temperature?: number;
  /** Tokens per chunk. Default: as in `tokenLogprobs`. */
  readonly chunkTokens?: number;
}

/**
 * The divergence of the two distributions at each token, in nats, float32. Differentiable in the policy; the teacher is a constant.
 *
 * Where one vocabulary is longer than the other, which padding makes it, both are cut to the shorter one.
 */
export function tokenDivergences(policy: ScoreSource, teacher: ScoreSource, options: DivergenceOptions): Tensor {
  const numScores = Math.min(policy.head_VD.size(0), teacher.head_VD.size(0));
  const policyHead_VD = cut(policy.head_VD, numScores);
  const teacherHead_VD = cut(teacher.head_VD, numScores);
  const { divergence, temperature = 1, chunkTokens = defaultChunk(policyHead_VD) } = options;
  expectChunks(temperature, chunkTokens);
  const scores = (hidden: Tensor, head: Tensor, softCap: number | null) =>
    softCapped(ops.linear(hidden, head).to("float32"), softCap);
  const logprobs = (hidden: Tensor, head: Tensor, softCap: number | null) =>
    scores(hidden, head, softCap).div(temperature).logSoftmax(1);
  const [values_S] = applyFunction(
    {
      forward: ([hidden, head]) => ({
        outputs: [
          cat(
            mapChunks(hidden!, chunkTokens, (part) => {
              const policyLogprobs = logprobs(part(hidden!), head!, policy.softCap);
              const teacherLogprobs = logprobs(part(teacher.hidden_SD), teacherHead_VD, teacher.softCap);
              return formulas[divergence].value(policyLogprobs, teacherLogprobs);
            }),
          ),
        ],
        saved: [hidden!, head!, teacher.hidden_SD],
      }),
      backward: ([grad], saved) => {
        const [hidden, head, teacherHidden] = saved as [Tensor, Tensor, Tensor];
        const sums = new ScoreGradientSums(hidden, head, policyHead_VD.requiresGrad);
        mapChunks(hidden, chunkTokens, (part) => {
          const z = scores(part(hidden), head, policy.softCap);
          const policyLogprobs = z.div(temperature).logSoftmax(1);
          const teacherLogprobs = logprobs(part(teacherHidden), teacherHead_VD, teacher.softCap);
          const slope = formulas[divergence].gradient(policyLogprobs, teacherLogprobs);
          const scale = part(grad!).div(temperature).unsqueeze(1);
          const bent = softCapSlope(z, policy.softCap);
          sums.add(part, (bent === null ? slope.mul(scale) : slope.mul(scale).mul(bent)).to(hidden.dtype));
        });
        return sums.results();
      },
    },
    [policy.hidden_SD, policyHead_VD],
  );
  return values_S!;
}

/** A divergence of distributions in the last dimension, and its gradient with respect to the policy's scores. */
interface Formula {
  readonly value: (policyLogprobs: Tensor, teacherLogprobs: Tensor) => Tensor;
  readonly gradient: (policyLogprobs: Tensor, teacherLogprobs: Tensor) => Tensor;
}

const formulas: Readonly<Record<Divergence, Formula>> = {
  forward: {
    value: (policy, teacher) => kl(teacher, policy),
    gradient: (policy, teacher) => policy.exp().sub(teacher.exp()),
  },
  reverse: {
    value: (policy, teacher) => kl(policy, teacher),
    gradient: (policy, teacher) => throughSoftmax(policy, policy.sub(teacher)),
  },
  jsd: {
    value: (policy, teacher) => {
      const mean = meanOf(policy, teacher);
      return kl(policy, mean).add(kl(teacher, mean)).mul(0.5);
    },
    // d JSD / d p = log(p / m) / 2: what the mean adds cancels out.
    gradient: (policy, teacher) => throughSoftmax(policy, policy.sub(meanOf(policy, teacher)).mul(0.5)),
  },
};

function kl(of: Tensor, to: Tensor): Tensor {
  return of.exp().mul(of.sub(to)).sum(1);
}

/** The gradient of scores from that of probabilities: p (g - E[g]). */
function throughSoftmax(logprobs: Tensor, gradient: Tensor): Tensor {
  const p = logprobs.exp();
  return p.mul(gradient.sub(p.mul(gradient).sum(1, true)));
}

function meanOf(left: Tensor, right: Tensor): Tensor {
  return ops.logaddexp(left, right).sub(Math.LN2);
}

function cut(head_VD: Tensor, numScores: number): Tensor {
  return head_VD.size(0) === numScores ? head_VD : head_VD.narrow(0, 0, numScores);
}

const ops = { linear: op("aten::linear"), logaddexp: op("aten::logaddexp") } as const;
