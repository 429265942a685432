import { expect, test } from "vitest";
import { rand, randn, tensor } from "../../torch/create.ts";
import { Generator } from "../../torch/random.ts";
import { tensorScope } from "../../torch/scope.ts";
import { Categorical, DiagonalGaussian, type Draws } from "./action-distribution.ts";

const HALF_LOG_TWO_PI = 0.9189385332046727;

function drawsOf(seed: number): Draws {
  const generator = new Generator(seed);
  const [uniforms, normals] = [rand, randn].map((draw) => draw([50_000], { generator }).toArray().values());
  return { uniform: () => uniforms!.next().value!, normal: () => normals!.next().value! };
}

test("the log-probability of a Gaussian is the sum over the numbers of an action", () => {
  const gaussian = new DiagonalGaussian(2, { logStd: Math.log(2) });
  const logprobs = gaussian.logprobs(
    tensor([
      [0, 1],
      [0, 0],
    ]),
    tensor([
      [2, 1],
      [0, -4],
    ]),
  );
  // Gaps of 1 and 0 deviations, then of 0 and 2; each number also pays log 2 and half of log 2 pi.
  const constant = 2 * (Math.log(2) + HALF_LOG_TWO_PI);
  expect(logprobs.toArray()[0]).toBeCloseTo(-0.5 - constant, 5);
  expect(logprobs.toArray()[1]).toBeCloseTo(-2 - constant, 5);
});

test("the entropy of a Gaussian depends on its deviations alone", () => {
  const gaussian = new DiagonalGaussian(3, { logStd: -0.5 });
  const entropies = gaussian.entropies(tensor([[1, 2, 3]])).toArray();
  expect(entropies).toHaveLength(1);
  expect(entropies[0]).toBeCloseTo(3 * (0.5 + HALF_LOG_TWO_PI - 0.5), 5);
});

test("KL between Gaussians has its closed form and is zero for equal ones", () => {
  const gaussian = new DiagonalGaussian(1, { logStd: 0 });
  const statistics = gaussian.statistics(tensor([[1], [0]]));
  expect(gaussian.klFrom(statistics, tensor([[1], [0]])).toArray()).toEqual([0, 0]);
  gaussian.logStd_A.detach().fill_(Math.log(2));
  // log 2 + (1 + gap^2) / 8 - 1/2, with gaps of 1 and 2.
  const kl = gaussian.klFrom(statistics, tensor([[0], [2]])).toArray();
  expect(kl[0]).toBeCloseTo(Math.log(2) + 2 / 8 - 0.5, 5);
  expect(kl[1]).toBeCloseTo(Math.log(2) + 5 / 8 - 0.5, 5);
});

test("samples of a Gaussian have its mean and deviation, and the log-probability that training computes", () => {
  const numRows = 20_000;
  const gaussian = new DiagonalGaussian(2, { logStd: Math.log(0.5) });
  const means_NA = Float32Array.from({ length: numRows * 2 }, (_, i) => (i % 2 === 0 ? 3 : -1));
  const [actions_NA, logprobs_N] = [new Float32Array(numRows * 2), new Float32Array(numRows)];
  gaussian.sample(means_NA, drawsOf(1), actions_NA, logprobs_N);
  const first = actions_NA.filter((_, i) => i % 2 === 0);
  const mean = first.reduce((sum, value) => sum + value, 0) / numRows;
  const variance = first.reduce((sum, value) => sum + (value - mean) ** 2, 0) / numRows;
  // Four standard errors of the mean and of the variance.
  expect(Math.abs(mean - 3)).toBeLessThan((4 * 0.5) / Math.sqrt(numRows));
  expect(Math.abs(variance - 0.25)).toBeLessThan(4 * 0.25 * Math.sqrt(2 / numRows));
  const again = gaussian.logprobs(tensor(means_NA, [numRows, 2]), tensor(actions_NA, [numRows, 2])).toArray();
  expect(Math.max(...again.map((value, n) => Math.abs(value - logprobs_N[n]!)))).toBeLessThan(1e-5);
});

test("a categorical gives log-probability, entropy and KL of the softmax of its logits", () => {
  const categorical = new Categorical(2);
  const logits = tensor([[Math.log(3), 0]]);
  expect(categorical.logprobs(logits, tensor([[1]])).item()).toBeCloseTo(Math.log(0.25), 6);
  expect(categorical.entropies(logits).item()).toBeCloseTo(-(0.75 * Math.log(0.75) + 0.25 * Math.log(0.25)), 6);
  const kl = categorical.klFrom(categorical.statistics(logits), tensor([[0, 0]])).item();
  expect(kl).toBeCloseTo(0.75 * Math.log(1.5) + 0.25 * Math.log(0.5), 6);
});

test("samples of a categorical are as frequent as their probabilities, however large the logits", () => {
  const numRows = 20_000;
  const categorical = new Categorical(3);
  const logits_NP = Float32Array.from({ length: numRows * 3 }, (_, i) => 1000 + Math.log([1, 2, 5][i % 3]!));
  const [actions_NA, logprobs_N] = [new Float32Array(numRows), new Float32Array(numRows)];
  categorical.sample(logits_NP, drawsOf(2), actions_NA, logprobs_N);
  for (const [action, share] of [1 / 8, 2 / 8, 5 / 8].entries()) {
    const count = actions_NA.filter((value) => value === action).length;
    expect(Math.abs(count / numRows - share)).toBeLessThan(4 * Math.sqrt((share * (1 - share)) / numRows));
    expect(logprobs_N[actions_NA.indexOf(action)]).toBeCloseTo(Math.log(share), 3);
  }
});

test("the mode is the mean of a Gaussian and the largest logit of a categorical", () => {
  const [means_NA, choices_N] = [new Float32Array(2), new Float32Array(2)];
  new DiagonalGaussian(2).mode(Float32Array.of(0.5, -2), means_NA);
  new Categorical(3).mode(Float32Array.of(0, 2, 1, 4, 3, 3.5), choices_N);
  expect([...means_NA]).toEqual([0.5, -2]);
  expect([...choices_N]).toEqual([1, 0]);
});

test("gradients of a Gaussian's log-probability reach means and deviations", () => {
  const gaussian = new DiagonalGaussian(1);
  tensorScope(() => gaussian.logprobs(tensor([[0]]), tensor([[2]])).backward());
  // d/d log s of -gap^2 / (2 s^2) - log s = gap^2 - 1 at s = 1.
  expect(gaussian.logStd_A.grad?.item()).toBeCloseTo(3, 6);
});
