/**
 * The options of rollout correction as people write them, and what they mean under each convention.
 *
 * w = policy / sampler. `ratio` reads every threshold as a bound on w; `verl` means what verl's code does with the same
 * string, which differs from its documentation. Nothing beyond this file depends on the convention.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { parseBounds, parseUpper, type Threshold } from "./parse-threshold.ts";

type CorrectionConvention = "ratio" | "verl";

export interface RolloutCorrectionOptions {
  /** How thresholds are read. Default ratio. */
  readonly convention?: CorrectionConvention;
  /** Weights for the loss. Default: none. */
  readonly importance?: ImportanceOptions | null;
  /** Criteria and their thresholds; a token must pass all of them. Default: none. */
  readonly rejections?: Readonly<Partial<Record<RejectionName, Threshold>>>;
  /**
   * What is rejected with a token: only itself, or its whole row. Criteria over sequences always reject rows. Default
   * token; the verl convention has no other.
   */
  readonly scope?: "token" | "sequence";
}

export interface ImportanceOptions {
  /** A weight per token, or one per sequence: the product of its token weights. */
  readonly level: "token" | "sequence";
  /**
   * Bounds of the weights: t, or "low_high". Under `ratio`, t stands for [1/t, t] and weights outside are clipped. Under
   * `verl`, t is an upper bound only, and weights outside of "low_high" become 0 (IcePop).
   */
  readonly threshold: Threshold;
  /** What weights out of bounds become, under `ratio`: the nearest bound, or 0 (IcePop). Default clip. */
  readonly outside?: "clip" | "zero";
  /** Divide by the mean weight of the batch, so that the mean is 1. Default false. */
  readonly isSelfNormalized?: boolean;
}

/**
 * The criteria by verl's names: k1 = -log w, k2 = (log w)^2 / 2, k3 = w - 1 - log w of a token, alone or as the sum, mean
 * or maximum over its sequence. `token`, `sequence` and `geometric` are other names of the k1 criteria under `ratio`.
 *
 * | name | keeps under `ratio` | keeps under `verl` |
 * |---|---|---|
 * | token_k1: "lo_hi" | lo <= w <= hi | lo <= 1 / w <= hi |
 * | seq_sum_k1: "lo_hi" | lo <= product of w <= hi | lo <= 1 / product <= hi |
 * | seq_mean_k1: "lo_hi" | lo <= geometric mean of w <= hi | lo <= 1 / geometric mean <= hi |
 * | seq_max_k2: t | max w <= t | max k2 <= t |
 * | the others: t | k2 or k3, their sum, mean or maximum <= t | the same |
 *
 * For k1, a single t stands for "1/t_t".
 */
export const REJECTION_NAMES = [
  "token_k1",
  "token_k2",
  "token_k3",
  "seq_sum_k1",
  "seq_sum_k2",
  "seq_sum_k3",
  "seq_mean_k1",
  "seq_mean_k2",
  "seq_mean_k3",
  "seq_max_k2",
  "seq_max_k3",
] as const;
type VerlRejectionName = (typeof REJECTION_NAMES)[number];
export type RejectionName = VerlRejectionName | "token" | "sequence" | "geometric";

const ALIASES = { token: "token_k1", sequence: "seq_sum_k1", geometric: "seq_mean_k1" } as const;

/** Options with all numbers worked out. */
export interface RolloutCorrection {
  readonly importance: ImportanceBounds | null;
  readonly criteria: readonly Criterion[];
}

export interface ImportanceBounds {
  readonly level: "token" | "sequence";
  /** The smallest value kept. null: no lower bound. */
  readonly low: number | null;
  readonly high: number;
  readonly outside: "clip" | "zero";
  readonly isSelfNormalized: boolean;
}

/** Keeps what has low <= statistic <= high. */
export interface Criterion {
  /** Name of the criterion, also in the names of its metrics. */
  readonly name: RejectionName;
  readonly statistic: "weight" | "k1" | "k2" | "k3";
  /**
   * What the statistic is computed over. For weights, sum and mean are of log w: the product and the geometric mean.
   */
  readonly over: "token" | "sum" | "mean" | "max";
  readonly low: number | null;
  readonly high: number;
  readonly scope: "token" | "sequence";
}

/** Works out what the options mean. Throws where they contradict each other. */
export function resolveCorrection(options: RolloutCorrectionOptions): RolloutCorrection {
  const { convention = "ratio", importance = null, rejections = {}, scope = "token" } = options;
  if (convention === "verl" && (scope === "sequence" || importance?.outside !== undefined)) {
    throw new RerollError(
      "CONTRADICTORY_OPTIONS",
      "scope: sequence and importance.outside belong to the ratio convention: got convention verl. verl rejects single " +
        'tokens, and zeroes weights outside of a "low_high" threshold. Set convention to ratio, or leave them out.',
      { convention, scope, outside: importance?.outside },
    );
  }
  return {
    importance: importance && resolveImportance(importance, convention),
    criteria: Object.entries(rejections).map(([name, threshold]) =>
      resolveCriterion(name as RejectionName, threshold, convention, scope),
    ),
  };
}

function resolveImportance(options: ImportanceOptions, convention: CorrectionConvention): ImportanceBounds {
  const { level, threshold, outside = "clip", isSelfNormalized = false } = options;
  const { low, high } = parseBounds("importance.threshold", threshold);
  if (convention === "ratio") return { level, low: low ?? 1 / high, high, outside, isSelfNormalized };
  return { level, low, high, outside: low === null ? "clip" : "zero", isSelfNormalized };
}

function resolveCriterion(
  name: RejectionName,
  threshold: Threshold,
  convention: CorrectionConvention,
  scope: "token" | "sequence",
): Criterion {
  const verlName = verlNameOf(name, convention);
  const [, over, statistic] = verlName.match(/^(?:seq_)?(token|sum|mean|max)_(k[123])$/) as unknown as [
    string,
    Criterion["over"],
    "k1" | "k2" | "k3",
  ];
  if (statistic === "k1") {
    const { low, high } = parseBounds(`rejections.${name}`, threshold);
    const bounds = { low: low ?? 1 / high, high };
    if (bounds.low > high) throw reversed(name, threshold);
    if (convention === "ratio") return { name, statistic: "weight", over, ...bounds, scope };
    return { name, statistic, over, low: Math.log(bounds.low), high: Math.log(high), scope };
  }
  const high = parseUpper(`rejections.${name}`, threshold);
  const isWeight = convention === "ratio" && verlName === "seq_max_k2";
  return { name, statistic: isWeight ? "weight" : statistic, over, low: null, high, scope };
}

function verlNameOf(name: RejectionName, convention: CorrectionConvention): VerlRejectionName {
  const alias = convention === "ratio" ? ALIASES[name as keyof typeof ALIASES] : undefined;
  const found = REJECTION_NAMES.find((known) => known === (alias ?? name));
  if (found !== undefined) return found;
  const allowed = convention === "ratio" ? [...REJECTION_NAMES, ...Object.keys(ALIASES)] : REJECTION_NAMES;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `"${name}" is not a rejection criterion of the ${convention} convention. Known are: ${allowed.join(", ")}.`,
    { name, convention },
  );
}

function reversed(name: string, threshold: Threshold): RerollError {
  return new RerollError(
    "INVALID_ARGUMENT",
    `rejections.${name} must be at least 1 when it is a single number t, which stands for "1/t_t": got ${threshold}.`,
    { name, threshold },
  );
}
