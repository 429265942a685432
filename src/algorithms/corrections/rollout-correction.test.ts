import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { isCudaAvailable } from "../../torch/cuda.ts";
import { readCorrectionMetrics } from "./correction-metrics.ts";
import { type RolloutCorrectionOptions, resolveCorrection } from "./correction-options.ts";
import { correctRollout } from "./rollout-correction.ts";

/** Corrects tokens with these weights w = policy / sampler. */
function run(ratios: number[][], options: RolloutCorrectionOptions, mask = ratios.map((row) => row.map(() => 1))) {
  const samplerLogprobs_BT = tensor(ratios, { dtype: "float64" }).mul(0).nanToNum().sub(2);
  const policyLogprobs_BT = tensor(ratios, { dtype: "float64" }).log().add(samplerLogprobs_BT);
  const { weights_BT, lossMask_BT, metrics } = correctRollout(
    { policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT: tensor(mask).ne(0) },
    resolveCorrection(options),
  );
  const values = readCorrectionMetrics(metrics);
  return {
    weights: weights_BT?.toArray() ?? null,
    mask: lossMask_BT.toArray(),
    metric: (name: string) => values[`rollout_corr/${name}`]!,
    metrics: values,
  };
}

const close = (...values: number[]) => values.map((value) => expect.closeTo(value, 9));

test.each([
  { convention: "ratio", threshold: 2, weights: [0.5, 1, 2] },
  { convention: "verl", threshold: 2, weights: [0.25, 1, 2] },
  { convention: "ratio", threshold: "0.4_3", weights: [0.4, 1, 3] },
  { convention: "verl", threshold: "0.4_3", weights: [0, 1, 0] },
] as const)("$convention bounds token weights with $threshold to $weights", ({ convention, threshold, weights }) => {
  const importance = { level: "token", threshold } as const;
  expect(run([[0.25, 1, 4]], { convention, importance }).weights).toEqual(close(...weights));
});

test("IcePop is an option of the ratio convention", () => {
  const importance = { level: "token", threshold: "0.5_2", outside: "zero" } as const;
  expect(run([[0.25, 1, 4]], { importance }).weights).toEqual(close(0, 1, 0));
});

test("the weight of a sequence is the product of its tokens, 0 outside the mask", () => {
  const importance = { level: "sequence", threshold: 10 } as const;
  const mask = [
    [1, 1, 0],
    [1, 1, 1],
  ];
  const { weights } = run(
    [
      [2, 1.5, 9],
      [0.5, 1, 0.5],
    ],
    { importance },
    mask,
  );
  expect(weights).toEqual(close(3, 3, 0, 0.25, 0.25, 0.25));
});

test("self-normalized token weights have mean 1 over tokens", () => {
  const importance = { level: "token", threshold: 4, isSelfNormalized: true } as const;
  const { weights, metric } = run([[1, 3, 2]], { importance });
  expect(weights![0]).toBeCloseTo(0.5, 7);
  expect(weights![1]).toBeCloseTo(1.5, 7);
  expect(metric("rollout_is_batch_norm_factor")).toBeCloseTo(2, 7);
});

test("self-normalized sequence weights have mean 1 over sequences, whatever their length", () => {
  const importance = { level: "sequence", threshold: 4, isSelfNormalized: true } as const;
  const mask = [
    [1, 1, 1],
    [1, 0, 0],
  ];
  const { weights } = run(
    [
      [3, 1, 1],
      [1, 1, 1],
    ],
    { importance },
    mask,
  );
  expect(weights![0]).toBeCloseTo(1.5, 7);
  expect(weights![3]).toBeCloseTo(0.5, 7);
});

test("a mean weight that is given makes parts of a batch agree with the whole", () => {
  const importance = { level: "token", threshold: 4, isSelfNormalized: true } as const;
  const policyLogprobs_BT = tensor([[Math.log(3)]], { dtype: "float64" });
  const part = {
    policyLogprobs_BT,
    samplerLogprobs_BT: policyLogprobs_BT.mul(0),
    lossMask_BT: policyLogprobs_BT.ne(0),
    meanWeight: tensor(2, { dtype: "float64" }),
  };
  expect(correctRollout(part, resolveCorrection({ importance })).weights_BT!.item()).toBeCloseTo(1.5, 12);
});

// verl bounds -log w, so its interval for w is the reciprocal one: [0.625, 1.667] for "0.6_1.6".
test.each([
  { convention: "ratio", mask: [0, 1, 1, 0] },
  { convention: "verl", mask: [0, 0, 1, 1] },
] as const)(
  "$convention reads token_k1: 0.6_1.6 as the tokens $mask of w = 0.5, 0.61, 1, 1.65",
  ({ convention, mask }) => {
    expect(run([[0.5, 0.61, 1, 1.65]], { convention, rejections: { token_k1: "0.6_1.6" } }).mask).toEqual(mask);
  },
);

test("a single k1 threshold t keeps [1/t, t]", () => {
  expect(run([[0.4, 0.6, 1.9, 2.1]], { rejections: { token_k1: 2 } }).mask).toEqual([0, 1, 1, 0]);
});

test("with scope sequence a rejected token takes its row with it", () => {
  const ratios = [
    [1, 9],
    [1, 1],
  ];
  expect(run(ratios, { rejections: { token_k1: 2 }, scope: "sequence" }).mask).toEqual([0, 0, 1, 1]);
  // A bad token outside the mask rejects nothing.
  const masked = run(ratios, { rejections: { token_k1: 2 }, scope: "sequence" }, [
    [1, 0],
    [1, 1],
  ]);
  expect(masked.mask).toEqual([1, 0, 1, 1]);
});

test.each([
  { name: "seq_sum_k1", threshold: "0.5_3", kept: [1, 0] },
  { name: "sequence", threshold: "0.5_3", kept: [1, 0] },
  { name: "seq_mean_k1", threshold: "0.5_1.9", kept: [1, 0] },
  { name: "geometric", threshold: "0.5_1.5", kept: [1, 0] },
  { name: "seq_max_k2", threshold: 3.5, kept: [1, 0] },
  { name: "seq_sum_k2", threshold: 0.5, kept: [1, 0] },
  { name: "seq_mean_k3", threshold: 0.2, kept: [1, 0] },
] as const)("$name: $threshold under ratio keeps rows $kept of w = (2, 1) and (4, 1)", ({ name, threshold, kept }) => {
  const ratios = [
    [2, 1],
    [4, 1],
  ];
  const { mask } = run(ratios, { rejections: { [name]: threshold } });
  expect(mask).toEqual(kept.flatMap((keep) => [keep, keep]));
});

test("seq_max_k2 bounds the largest weight under ratio, and half its squared log under verl", () => {
  // (log 9)^2 / 2 = 2.41 and (log 10)^2 / 2 = 2.65; verl rejects tiny weights too.
  const ratios = [[9], [10], [0.05]];
  expect(run(ratios, { rejections: { seq_max_k2: 2.5 } }).mask).toEqual([0, 0, 1]);
  expect(run(ratios, { convention: "verl", rejections: { seq_max_k2: 2.5 } }).mask).toEqual([1, 0, 0]);
});

test("a token must pass all criteria", () => {
  const rejections = { token_k1: "0.5_2", seq_max_k2: 5 } as const;
  const ratios = [
    [1, 3],
    [1, 6],
  ];
  const { mask, metric } = run(ratios, { rejections });
  expect(mask).toEqual([1, 0, 0, 0]);
  expect(metric("rollout_rs_token_k1_masked_fraction")).toBeCloseTo(0.5, 7);
  expect(metric("rollout_rs_seq_max_k2_masked_fraction")).toBeCloseTo(0.5, 7);
  expect(metric("rollout_rs_masked_fraction")).toBeCloseTo(0.75, 7);
  expect(metric("rollout_rs_seq_masked_fraction")).toBe(1);
});

test("metrics of a criterion are in the units of its threshold", () => {
  const { metric } = run(
    [
      [1, 3],
      [1, 1],
    ],
    { rejections: { token_k1: 2 } },
  );
  expect(metric("rollout_rs_token_k1_mean")).toBeCloseTo(1.5, 7);
  expect(metric("rollout_rs_token_k1_max")).toBeCloseTo(3, 9);
  expect(metric("rollout_rs_token_k1_seq_max_deviation")).toBeCloseTo(1, 7);
  expect(metric("rollout_rs_token_k1_fraction_high")).toBeCloseTo(0.25, 7);
});

test("IcePop keeps one weight of three: its statistics are those of 0, 0.8, 0", () => {
  const { weights, metric } = run([[0.3, 0.8, 3]], {
    convention: "verl",
    importance: { level: "token", threshold: "0.5_2.0" },
  });
  expect(weights).toEqual(close(0, 0.8, 0));
  expect(metric("rollout_is_std")).toBeCloseTo(0.3771236, 6);
  expect(metric("rollout_is_eff_sample_size")).toBeCloseTo(1 / 3, 6);
  expect(metric("rollout_is_oob_ratio")).toBeCloseTo(2 / 3, 6);
  expect(metric("rollout_is_ratio_fraction_high")).toBeCloseTo(1 / 3, 6);
});

test("the gap between the policies is reported without any correction", () => {
  const { weights, mask, metric } = run([[2, 0.5]], {});
  expect(weights).toBeNull();
  expect(mask).toEqual([1, 1]);
  expect(metric("kl")).toBeCloseTo(0, 9);
  expect(metric("k3_kl")).toBeCloseTo((2 + 0.5) / 2 - 1, 7);
  expect(metric("chi2_token")).toBeCloseTo((4 + 0.25) / 2 - 1, 7);
  expect(metric("chi2_seq")).toBeCloseTo(0, 9);
  expect(metric("rollout_ppl")).toBeCloseTo(Math.exp(2), 6);
  expect(metric("log_ppl_diff")).toBeCloseTo(0, 9);
});

const everything: RolloutCorrectionOptions = {
  importance: { level: "sequence", threshold: 2, isSelfNormalized: true },
  rejections: { token_k1: 2, seq_mean_k2: 1, seq_max_k3: 1, seq_sum_k1: 3 },
};

test.each(["ratio", "verl"] as const)("%s: a batch may be rejected whole", (convention) => {
  const { mask, weights, metrics, metric } = run([[50, 60]], { ...everything, convention });
  expect(mask).toEqual([0, 0]);
  expect(weights!.every(Number.isFinite)).toBe(true);
  expect(metric("rollout_rs_masked_fraction")).toBeCloseTo(1, 7);
  expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
});

test.each([Number.NaN, Number.POSITIVE_INFINITY, 0])("a token with weight %s is rejected and counted", (ratio) => {
  const { mask, weights, metrics, metric } = run([[1, ratio, 1.1]], everything);
  expect(mask).toEqual([1, 0, 1]);
  expect(weights![1]).toBe(0);
  expect(metric("nonfinite_fraction")).toBeCloseTo(1 / 3, 7);
  expect(Object.values(metrics).every(Number.isFinite)).toBe(true);
  expect(metric("kl")).toBeCloseTo(-Math.log(1.1) / 2, 7);
});

test("an empty mask stays empty, with weights of 0 and finite metrics", () => {
  const { mask, weights, metrics } = run([[1, 2]], everything, [[0, 0]]);
  expect(mask).toEqual([0, 0]);
  expect(weights).toEqual([0, 0]);
  expect(Object.entries(metrics).filter(([, value]) => !Number.isFinite(value))).toEqual([]);
});

test("float32 gives the same", () => {
  const policyLogprobs_BT = tensor([[-1, -2.5, -0.3]], { dtype: "float64" });
  const samplerLogprobs_BT = tensor([[-1.2, -2, -0.4]], { dtype: "float64" });
  const lossMask_BT = policyLogprobs_BT.lt(0);
  const correction = resolveCorrection(everything);
  const double = correctRollout({ policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT }, correction);
  const single = correctRollout(
    {
      policyLogprobs_BT: policyLogprobs_BT.to("float32"),
      samplerLogprobs_BT: samplerLogprobs_BT.to("float32"),
      lossMask_BT,
    },
    correction,
  );
  expect(single.weights_BT!.dtype).toBe("float32");
  const [expected, got] = [double, single].map(({ metrics }) => readCorrectionMetrics(metrics)) as [
    Record<string, number>,
    Record<string, number>,
  ];
  // A deviation is the root of a difference, which float32 knows to about 1e-7.
  for (const [name, value] of Object.entries(expected)) expect(got[name]).toBeCloseTo(value, 3);
});

test.runIf(isCudaAvailable())("CUDA gives the same", () => {
  const run = (device: string) => {
    const policyLogprobs_BT = tensor([[-1, -2.5, -0.3]], { dtype: "float64", device });
    const samplerLogprobs_BT = tensor([[-1.2, -2, -0.4]], { dtype: "float64", device });
    const inputs = { policyLogprobs_BT, samplerLogprobs_BT, lossMask_BT: policyLogprobs_BT.lt(0) };
    const { weights_BT, lossMask_BT, metrics } = correctRollout(inputs, resolveCorrection(everything));
    return [...weights_BT!.toArray(), ...lossMask_BT.toArray(), ...Object.values(readCorrectionMetrics(metrics))];
  };
  expect(run("cuda")).toEqual(run("cpu").map((value) => expect.closeTo(value, 6)));
});

test("log-probs of other shapes are refused", () => {
  const inputs = {
    policyLogprobs_BT: tensor([[-1, -2]]),
    samplerLogprobs_BT: tensor([[-1]]),
    lossMask_BT: tensor([[1, 1]]).ne(0),
  };
  expect(() => correctRollout(inputs, resolveCorrection({}))).toThrow(/samplerLogprobs_BT has shape \[1, 1\]/);
});
