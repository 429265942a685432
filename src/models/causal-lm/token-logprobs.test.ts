import { describe, expect, test } from "vitest";
import { gradients, noGrad } from "../../torch/autograd.ts";
import { randint, randn, tensor } from "../../torch/create.ts";
import { memoryStats, resetPeakMemory } from "../../torch/memory.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { type Foresight, tokenLogprobs, weightedCrossEntropy } from "./token-logprobs.ts";

const S = 11;
const V = 13;
const D = 5;

function inputs(): { hidden: Tensor; head: Tensor; targets: Tensor; a: Tensor; b: Tensor } {
  const generator = new Generator(5);
  const random = (...shape: number[]) => randn(shape, { generator, dtype: "float64" });
  const hidden = random(S, D);
  const head = random(V, D).mul(2);
  hidden.requiresGrad = true;
  head.requiresGrad = true;
  return { hidden, head, targets: randint(0, V, [S], { generator }), a: random(S), b: random(S) };
}

/** The same by log_softmax of all scores at once. */
function naive(hidden: Tensor, head: Tensor, targets: Tensor, temperature: number) {
  const logp = hidden.matmul(head.t()).div(temperature).logSoftmax(-1);
  return {
    logprobs_S: logp.gather(1, targets.unsqueeze(1)).squeeze(1),
    entropy_S: logp.exp().mul(logp).sum(-1).neg(),
  };
}

function expectNear(got: Tensor, expected: Tensor, tolerance = 1e-10): void {
  expect(got.shape).toEqual(expected.shape);
  expect(got.sub(expected).abs().max().item()).toBeLessThan(tolerance);
}

test("two tokens by hand: log p and entropy of a fair and of a sure coin", () => {
  tensorScope(() => {
    const hidden = tensor([[0], [1]]);
    const head = tensor([[Math.log(3)], [0]]);
    const { logprobs_S, entropy_S } = tokenLogprobs(hidden, head, tensor([0, 1], { dtype: "int64" }));
    const logprobs = logprobs_S.toArray();
    expect(logprobs[0]).toBeCloseTo(Math.log(1 / 2), 6);
    expect(logprobs[1]).toBeCloseTo(Math.log(1 / 4), 6);
    const entropy = entropy_S.toArray();
    expect(entropy[0]).toBeCloseTo(Math.log(2), 6);
    expect(entropy[1]).toBeCloseTo(-0.75 * Math.log(0.75) - 0.25 * Math.log(0.25), 6);
  });
});

describe.each([1, 0.7, 2.5])("at temperature %f", (temperature) => {
  test.each([1, 2, 3, 4, 7, 10, 11, 100])("in chunks of %i: values and gradients equal log_softmax", (chunkTokens) => {
    tensorScope(() => {
      const { hidden, head, targets, a, b } = inputs();
      const losses: ((x: { logprobs_S: Tensor; entropy_S: Tensor }) => Tensor)[] = [
        ({ logprobs_S, entropy_S }) => logprobs_S.mul(a).add(entropy_S.mul(b)).sum(),
        ({ logprobs_S }) => logprobs_S.mul(a).sum(),
        ({ entropy_S }) => entropy_S.mul(b).sum(),
      ];
      for (const loss of losses) {
        const got = tokenLogprobs(hidden, head, targets, { temperature, chunkTokens });
        const expected = naive(hidden, head, targets, temperature);
        expectNear(got.logprobs_S, expected.logprobs_S);
        expectNear(got.entropy_S, expected.entropy_S);
        const gotGrads = gradients([loss(got)], [hidden, head]);
        const expectedGrads = gradients([loss(expected)], [hidden, head]);
        gotGrads.forEach((grad, i) => void expectNear(grad!, expectedGrads[i]!));
      }
    });
  });

  test("weighted cross entropy is -sum(w log p), with its gradients", () => {
    tensorScope(() => {
      const { hidden, head, targets, a } = inputs();
      const got = weightedCrossEntropy(hidden, head, targets, a, { temperature, chunkTokens: 4 });
      const logprobs = tokenLogprobs(hidden, head, targets, { temperature }).logprobs_S;
      const expected = logprobs.mul(a).sum().neg();
      expectNear(got.loss, expected);
      expectNear(got.logprobs_S, logprobs);
      const scaled = (loss: Tensor) => gradients([loss.mul(3)], [hidden, head]);
      const expectedGrads = scaled(expected);
      scaled(got.loss).forEach((grad, i) => void expectNear(grad!, expectedGrads[i]!));
    });
  });
});

describe("gradients that were foreseen", () => {
  /** sum(a exp(log p)) + sum(b H^2): what arrives at a token depends on that token. */
  const local =
    (a: Tensor, b: Tensor) =>
    ({ logprobs_S, entropy_S }: { logprobs_S: Tensor; entropy_S: Tensor }) =>
      logprobs_S.exp().mul(a).sum().add(entropy_S.square().mul(b).sum());
  const foresight =
    (a: Tensor, b: Tensor, calls: number[] = []): Foresight =>
    ({ logprob, entropy }, part) => {
      calls.push(logprob.numel);
      return { logprob: logprob.exp().mul(part(a)), entropy: entropy.mul(2).mul(part(b)) };
    };

  test.each([2, 4, 11])("are those of two passes to the bit, in chunks of %i", (chunkTokens) => {
    tensorScope(() => {
      const { hidden, head, targets, a, b } = inputs();
      const calls: number[] = [];
      const gradientsWith = (foresee?: Foresight) => {
        const options = { temperature: 0.7, softCap: 5, chunkTokens, ...(foresee && { foresee }) };
        return gradients([local(a, b)(tokenLogprobs(hidden, head, targets, options))], [hidden, head]);
      };
      const got = gradientsWith(foresight(a, b, calls)).map((gradient) => gradient!.toArray());
      expect(got).toEqual(gradientsWith().map((gradient) => gradient!.toArray()));
      expect(calls.reduce((sum, count) => sum + count, 0)).toBe(S);
    });
  });

  test("are taken as they are: the backward pass makes no scores", () => {
    tensorScope(() => {
      const hidden = randn([64, 4]);
      const targets = randint(0, 4096, [64]);
      hidden.requiresGrad = true;
      const backwardBytes = (weight: number) => {
        const foresee: Foresight = ({ logprob }) => ({ logprob: logprob.exp().mul(weight), entropy: null });
        const loss = tokenLogprobs(hidden, randn([4096, 4]), targets, { foresee })
          .logprobs_S.exp()
          .mul(2)
          .sum();
        const { liveBytes } = memoryStats();
        resetPeakMemory();
        loss.backward();
        return memoryStats().peakBytes - liveBytes;
      };
      // The scores are 1 MiB.
      expect(backwardBytes(3)).toBeGreaterThan(1e6);
      expect(backwardBytes(2)).toBeLessThan(1e5);
    });
  });

  test("change nothing where they were wrong", () => {
    tensorScope(() => {
      const { hidden, head, targets, a, b } = inputs();
      const gradientsWith = (options: { foresee?: Foresight }) =>
        gradients([local(a, b)(tokenLogprobs(hidden, head, targets, options))], [hidden, head]).map((one) =>
          one!.toArray(),
        );
      const right = gradientsWith({});
      expect(gradientsWith({ foresee: foresight(a.mul(2), b) })).toEqual(right);
      expect(gradientsWith({ foresee: foresight(a, b.mul(2)) })).toEqual(right);
      expect(gradientsWith({ foresee: () => ({ logprob: null, entropy: null }) })).toEqual(right);
    });
  });

  test("cost nothing without gradient", () => {
    tensorScope(() => {
      const { hidden, head, targets, a, b } = inputs();
      const calls: number[] = [];
      noGrad(() => tokenLogprobs(hidden, head, targets, { foresee: foresight(a, b, calls) }));
      expect(calls).toEqual([]);
    });
  });
});

test("a frozen head gets no gradient, and the hidden states the same one", () => {
  tensorScope(() => {
    const { hidden, head, targets, a } = inputs();
    const gradientOf = (loss: Tensor) => gradients([loss], [hidden])[0]!;
    const expected = gradientOf(tokenLogprobs(hidden, head, targets).logprobs_S.mul(a).sum());
    const frozen = head.detach();
    expectNear(gradientOf(tokenLogprobs(hidden, frozen, targets).logprobs_S.mul(a).sum()), expected);
    expectNear(gradientOf(weightedCrossEntropy(hidden, frozen, targets, a).loss.neg()), expected);
    expect(frozen.grad).toBeNull();
  });
});

test("frozen hidden states leave the head its gradient", () => {
  tensorScope(() => {
    const { hidden, head, targets, a } = inputs();
    const gradientOf = (loss: Tensor) => gradients([loss], [head])[0]!;
    const expected = gradientOf(naive(hidden, head, targets, 1).logprobs_S.mul(a).sum());
    const frozen = hidden.detach();
    expectNear(gradientOf(tokenLogprobs(frozen, head, targets).logprobs_S.mul(a).sum()), expected);
    expectNear(gradientOf(weightedCrossEntropy(frozen, head, targets, a).loss.neg()), expected);
  });
});

test("the backward pass may run after the scope that made the targets", () => {
  tensorScope(() => {
    const { hidden, head, targets } = inputs();
    const loss = tensorScope(() => tokenLogprobs(hidden, head, targets.clone()).logprobs_S.sum());
    loss.backward();
    const expected = gradients([naive(hidden, head, targets, 1).logprobs_S.sum()], [hidden])[0]!;
    expectNear(hidden.grad!, expected);
  });
});

test("bfloat16 states give float32 log-probabilities near the exact ones, and gradients in their own type", () => {
  tensorScope(() => {
    const { hidden, head, targets } = inputs();
    const [hidden16, head16] = [hidden, head].map((x) => x.detach().to("bfloat16")) as [Tensor, Tensor];
    hidden16.requiresGrad = true;
    head16.requiresGrad = true;
    const { logprobs_S, entropy_S } = tokenLogprobs(hidden16, head16, targets, { chunkTokens: 4 });
    expect([logprobs_S.dtype, entropy_S.dtype]).toEqual(["float32", "float32"]);
    const expected = naive(hidden16.to("float64"), head16.to("float64"), targets, 1);
    expectNear(logprobs_S, expected.logprobs_S, 0.05);
    const [grad, gradHead] = gradients([logprobs_S.sum()], [hidden16, head16]);
    expect([grad!.dtype, gradHead!.dtype]).toEqual(["bfloat16", "bfloat16"]);
    const [expectedGrad] = gradients([expected.logprobs_S.sum()], [hidden16]);
    expectNear(grad!.to("float64"), expectedGrad!.to("float64"), 0.1);
  });
});

test("without gradients, cross entropy computes none", () => {
  tensorScope(() => {
    const { hidden, head, targets, a } = inputs();
    const { loss } = noGrad(() => weightedCrossEntropy(hidden, head, targets, a));
    expect(loss.requiresGrad).toBe(false);
    expectNear(loss, naive(hidden, head, targets, 1).logprobs_S.mul(a).sum().neg());
  });
});

test("the scores of all tokens are never held", () => {
  tensorScope(() => {
    const hidden = randn([512, 8]);
    const head = randn([2048, 8]);
    hidden.requiresGrad = true;
    const targets = randint(0, 2048, [512]);
    const { liveBytes } = memoryStats();
    resetPeakMemory();
    tensorScope(() => tokenLogprobs(hidden, head, targets, { chunkTokens: 16 }).logprobs_S.sum().backward());
    // All scores are 4 MiB; a chunk of them is 128 KiB, held a few times over.
    expect(memoryStats().peakBytes - liveBytes).toBeLessThan(1.2e6);
  });
});

test("chunks of no tokens and temperatures of 0 are refused", () => {
  const [hidden, head, targets] = [randn([2, 3]), randn([4, 3]), tensor([0, 1], { dtype: "int64" })];
  for (const chunkTokens of [0, -1, 1.5, Number.NaN]) {
    const refused = `chunkTokens must be an integer of at least 1: got ${chunkTokens}`;
    expect(() => tokenLogprobs(hidden, head, targets, { chunkTokens })).toThrow(refused);
    expect(() => weightedCrossEntropy(hidden, head, targets, randn([2]), { chunkTokens })).toThrow(refused);
  }
  for (const temperature of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => tokenLogprobs(hidden, head, targets, { temperature })).toThrow(`temperature must be above 0`);
  }
});
