/**
 * Rollout correction from a run file, against numbers worked out here from what the run records of its tokens.
 *
 * Every run trains two steps and publishes after the second only, so that the second trains on tokens of weights that are one step
 * old. Samples are drawn one after the other, so that all runs draw the same. A step is one update: policy and anchor are the
 * same in it, and of a loss only weights and advantages are left.
 */
import { describe, expect, test } from "vitest";
import { REJECTION_NAMES } from "../../src/algorithms/corrections/correction-options.ts";
import type { RunFile } from "../../src/run/define-run.ts";
import { type SmallRun, trainSmall } from "../runs/small-run.ts";
import { lakeFile } from "./lake-file.ts";

type Algorithm = NonNullable<RunFile["algorithm"]>;

const tokenMean = { reduction: { type: "token-mean" } } as const;

function trainStale(algorithm: Algorithm): Promise<SmallRun> {
  return trainSmall(
    lakeFile({
      algorithm,
      rollout: { groupsPerStep: 2, maxInFlight: 1 },
      training: { optimizer: { lr: 2e-4 } },
      loop: { type: "async", steps: 2, syncInterval: 2, maxStaleness: 1 },
    }),
  );
}

/** A token that was trained on in the second step: w = policy / sampler. */
interface Token {
  readonly w: number;
  readonly advantage: number;
  readonly logprob: number;
  readonly isKept: boolean;
}

/** The tokens of the second step, row by row: a conversation is one row. */
function staleRows({ trajectories }: SmallRun): readonly (readonly Token[])[] {
  const second = trajectories.filter(({ step }) => step === 2);
  return second.map(({ turns }) =>
    turns.flatMap(({ samplerLogprobs, policyLogprobs, advantages, lossMask }) =>
      samplerLogprobs.map((sampled, i) => ({
        w: Math.exp(policyLogprobs![i]! - sampled),
        advantage: advantages![i]!,
        logprob: policyLogprobs![i]!,
        isKept: lossMask![i]!,
      })),
    ),
  );
}

const clamp = (value: number, low: number, high: number) => Math.min(Math.max(value, low), high);
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;
const productOf = (row: readonly Token[]) => row.reduce((product, { w }) => product * w, 1);

/** What each run should have made of its tokens: minus the mean of these over the tokens that are kept. */
type Worth = (token: Token, row: readonly Token[], all: readonly Token[]) => number;

const bounds = [0.8, 1.25] as const;
const correction = { importance: { level: "token", threshold: 1.25 } } as const;
const weighted = (options: object): Algorithm => ({
  ...{ type: "grpo", ...tokenMean },
  correction: { importance: { ...correction.importance, ...options } },
});

const cases: Readonly<Record<string, readonly [Algorithm, Worth]>> = {
  "no correction": [{ type: "grpo", ...tokenMean }, ({ advantage }) => advantage],
  "token weights": [weighted({}), ({ w, advantage }) => clamp(w, ...bounds) * advantage],
  "sequence weights": [
    weighted({ level: "sequence" }),
    ({ advantage }, row) => clamp(productOf(row), ...bounds) * advantage,
  ],
  "self-normalized token weights": [
    weighted({ isSelfNormalized: true }),
    ({ w, advantage }, _, all) => (clamp(w, ...bounds) * advantage) / mean(all.map((each) => clamp(each.w, ...bounds))),
  ],
  IcePop: [weighted({ outside: "zero" }), ({ w, advantage }) => (clamp(w, ...bounds) === w ? w * advantage : 0)],
  "a veto over rows with an outlier": [
    { type: "grpo", ...tokenMean, outliers: { of: "ratio", low: 0.6, high: 1.6, scope: "sequence" } },
    ({ advantage }) => advantage,
  ],
  "bypass with ppo_clip": [
    { type: "grpo", ...tokenMean, clipLow: 0.1, clipHigh: 0.1, dualClip: null, bypass: {} },
    ({ w, advantage }) => Math.min(w * advantage, clamp(w, 0.9, 1.1) * advantage),
  ],
  "bypass with reinforce": [
    { type: "grpo", ...tokenMean, bypass: { loss: "reinforce" }, correction },
    ({ w, advantage, logprob }) => clamp(w, ...bounds) * advantage * logprob,
  ],
  "decoupled PPO": [
    { type: "decoupled-ppo", weightCap: 1.2, overCap: "truncate" },
    ({ w, advantage }) => Math.min(w, 1.2) * advantage,
  ],
};

/** verl's names of how far policy and sampler are apart. */
const always = [
  ...["kl", "k3_kl", "training_ppl", "training_log_ppl", "rollout_ppl", "rollout_log_ppl", "ppl_ratio", "log_ppl_diff"],
  ...["log_ppl_abs_diff", "log_ppl_diff_max", "log_ppl_diff_min", "chi2_token", "chi2_seq", "nonfinite_fraction"],
];

describe("weights, veto, bypass and decoupling of the run file are what the loss is made of", () => {
  const losses: number[] = [];
  test.each(Object.entries(cases))("%s", async (name, [algorithm, worth]) => {
    const run = await trainStale(algorithm);
    const rows = staleRows(run);
    const all = rows.flat();
    const isVetoed = (row: readonly Token[]) => row.some(({ w }) => w < 0.6 || w > 1.6);
    const keptRows = name.includes("veto") ? rows.filter((row) => !isVetoed(row)) : rows;
    const kept = keptRows.flatMap((row) => row.map((token) => worth(token, row, all)));
    const [first, second] = run.metrics;
    expect(second!["train/loss_policy"]).toBeCloseTo(-mean(kept), 4);
    expect(second!["score/kept_fraction"]).toBeCloseTo(kept.length / all.length, 6);
    losses.push(second!["train/loss_policy"]!);
    // The metrics of correction are always there: near 0 on-policy, and what the tokens say off-policy.
    for (const metric of always) expect(first, metric).toHaveProperty([`rollout_corr/${metric}`]);
    expect(first!["rollout_corr/kl"]).toBeCloseTo(0, 5);
    if (!name.includes("veto"))
      expect(second!["rollout_corr/kl"]).toBeCloseTo(-mean(all.map(({ w }) => Math.log(w))), 3);
  });

  test("and no two of them are the same", () => {
    expect(new Set(losses.map((loss) => loss.toFixed(4))).size).toBe(Object.keys(cases).length);
  });
});

const divergences = {
  k1: (w: number) => -Math.log(w),
  k2: (w: number) => Math.log(w) ** 2 / 2,
  k3: (w: number) => w - 1 - Math.log(w),
} as const;
const overRow = { sum, mean, max: (values: readonly number[]) => Math.max(...values) } as const;

type Criterion = (typeof REJECTION_NAMES)[number];

/** What a criterion compares, by verl's name of it, for each token of a row. */
function statistics(name: Criterion, row: readonly Token[]): readonly number[] {
  const [over, kind] = name.replace("seq_", "").split("_") as [
    keyof typeof overRow | "token",
    keyof typeof divergences,
  ];
  const values = row.map(({ w }) => divergences[kind](w));
  return over === "token" ? values : values.map(() => overRow[over](values));
}

const thresholds: Readonly<Record<Criterion, number | string>> = {
  ...{ token_k1: "0.7_1.3", token_k2: 0.03, token_k3: 0.03 },
  ...{ seq_sum_k1: "0.5_1.5", seq_sum_k2: 0.3, seq_sum_k3: 0.3 },
  ...{ seq_mean_k1: "0.9_1.05", seq_mean_k2: 0.05, seq_mean_k3: 0.05 },
  ...{ seq_max_k2: 0.1, seq_max_k3: 0.1 },
};

/** verl reads two bounds as those of 1 / w, in logs. */
const verl = (name: Criterion, row: readonly Token[]): readonly boolean[] => {
  const [low, high] = String(thresholds[name]).split("_").map(Number) as [number, number | undefined];
  return statistics(name, row).map((value) =>
    high === undefined ? value <= low : value >= Math.log(low) && value <= Math.log(high),
  );
};

/** We read them as those of w, and the bound of seq_max_k2 as one on the largest w. */
const ratio = (name: Criterion, row: readonly Token[]): readonly boolean[] => {
  if (name === "seq_max_k2") return row.map(() => row.every(({ w }) => w <= 1.4));
  return name.endsWith("k1")
    ? verl(
        name,
        row.map((token) => ({ ...token, w: 1 / token.w })),
      )
    : verl(name, row);
};

describe("eleven rejection criteria each reject what is too far from the sampler", () => {
  test.each([
    { convention: "ratio", passes: ratio, rejections: { ...thresholds, seq_max_k2: 1.4 } },
    { convention: "verl", passes: verl, rejections: thresholds },
  ] as const)("read by the convention $convention", async ({ convention, passes, rejections }) => {
    const run = await trainStale({ type: "grpo", correction: { convention, rejections } });
    const rows = staleRows(run);
    const metrics = run.metrics[1]!;
    const numTokens = rows.flat().length;
    for (const name of REJECTION_NAMES) {
      const numPassed = rows.flatMap((row) => passes(name, row)).filter(Boolean).length;
      expect([0, numTokens], name).not.toContain(numPassed);
      const rejected = metrics[`rollout_corr/rollout_rs_${name}_masked_fraction`];
      expect(rejected, name).toBeCloseTo(1 - numPassed / numTokens, 6);
    }
    const kept = rows.flatMap((row) => row.map((_, i) => REJECTION_NAMES.every((name) => passes(name, row)[i])));
    expect(rows.flat().map(({ isKept }) => isKept)).toEqual(kept);
    expect(metrics["score/kept_fraction"]).toBeCloseTo(kept.filter(Boolean).length / numTokens, 6);
  });
});
