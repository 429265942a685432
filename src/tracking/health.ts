/**
 * Says in words whether a run is healthy.
 *
 * In: the metrics of the last steps. Out: what is wrong, each with a code, a sentence that says what to do, and where it is
 * explained. The checks are pure; `HealthMonitor` says each thing once, until it has been gone for a while.
 */
import type { Metrics } from "../flow/metrics.ts";

/** A warning about a run. */
interface HealthWarning {
  readonly code: HealthCode;
  readonly text: string;
  readonly link: string;
}

/** Limits that the run file sets. Checks that need a missing one say nothing. */
export interface HealthLimits {
  /** Maximum staleness of a token from rollout, in training steps. */
  readonly maxStaleness?: number;
  /** Maximum number of tokens in one reply. */
  readonly maxReplyTokens?: number;
  /** Steps without a change of the reward after which it is called flat. Default 50. */
  readonly flatSteps?: number;
}

/** The last steps, the newest last; at least one. */
type History = readonly Metrics[];
type Check = (history: History, limits: HealthLimits) => string | null;

/** Steps that a share is averaged over, so that one odd step is no warning. */
const WINDOW = 5;
/** Steps without the fault after which a warning may be given again. */
const STEPS_TO_CLEAR = 10;
/** Where rollout and training take turns, each waits for the other: a share of 0.7 is nothing to warn of. */
const MAX_IDLE = 0.85;
const DEFAULT_FLAT_STEPS = 50;
/**
 * Largest share of groups that may be dropped without a warning: sampling a few for nothing is cheaper than waiting.
 */
const MAX_DROPPED = 0.1;

const checks = {
  "equal-rewards": above(
    "rollout/equal_reward_share",
    0.9,
    (share) =>
      `${percent(share)} of groups have equal rewards, and so teach nothing: the task is too easy or too hard for this policy. Change its difficulty, raise the group size, or filter groups.`,
  ),
  failures: above(
    "rollout/failed_share",
    0.2,
    (share) =>
      `${percent(share)} of trajectories fail. Their reasons are in the trajectories of the run; correct the environment or the reward.`,
  ),
  truncation: above(
    "rollout/truncated_share",
    0.5,
    (share) =>
      `${percent(share)} of trajectories are ended by a limit before they are over. Raise the limit on tokens or turns, or penalize length.`,
  ),
  "entropy-collapse": (history) => {
    const entropies = series(history, "policy/entropy");
    const [first] = entropies;
    const now = mean(entropies.slice(-WINDOW));
    if (first === undefined || entropies.length < 2 * WINDOW || !(now < 0.01 || now < 0.1 * first)) return null;
    return `The entropy of the policy has fallen to ${short(now)}: it has all but stopped exploring. Lower the learning rate, raise clipHigh, or add an entropy bonus.`;
  },
  "sampler-gap": samplerGap,
  "reference-kl": (history) => {
    const kl = recent(history, "score/reference_kl");
    return kl !== null && Math.abs(kl) > 0.1
      ? `KL to the reference is ${short(kl)} per token: the policy is moving far away. Raise the KL coefficient or lower the learning rate, unless that is meant.`
      : null;
  },
  "policy-jump": (history) => {
    const kl = recent(history, "policy/anchor_kl");
    return kl !== null && Math.abs(kl) > 0.1
      ? `The updates of one step move the policy by a KL of ${short(kl)}. Lower the learning rate or take fewer updates per rollout.`
      : null;
  },
  "bad-gradient": badGradient,
  "skipped-updates": (history) => {
    const skipped = history.at(-1)?.["train/skipped_updates"] ?? 0;
    return skipped === 0
      ? null
      : `${skipped} updates of a step were skipped: their loss or gradients are NaN or infinite. Lower the learning rate, and look at the rewards and trajectories of this step.`;
  },
  clipping: above(
    "policy/clip_fraction",
    0.5,
    (share) =>
      `${percent(share)} of tokens are clipped and have no gradient. Lower the learning rate, take fewer updates per rollout, or check that the sampler's weights are fresh.`,
  ),
  staleness: (history, { maxStaleness }) => {
    const dropped = recent(history, "rollout/stale_groups");
    const kept = recent(history, "rollout/groups");
    const now = recent(history, "rollout/staleness");
    if (maxStaleness === undefined || maxStaleness === 0) return null;
    if (dropped !== null && kept !== null && dropped > MAX_DROPPED * (dropped + kept)) {
      return `${percent(dropped / (dropped + kept))} of groups are more than ${maxStaleness} training steps old before they are trained on, and start again. Raise loop.maxStaleness, or give rollout more of the machine.`;
    }
    // With a limit of one, overlap itself makes tokens that old.
    return maxStaleness > 1 && now !== null && now >= 0.9 * maxStaleness
      ? `Tokens are ${short(now)} training steps old on average, and ${maxStaleness} is the limit: rollout runs ahead as far as it may, and waits. Lower loop.maxStaleness, which costs no time, or give training more of the machine.`
      : null;
  },
  "engine-idle": above(
    "idle/engine",
    MAX_IDLE,
    (share) =>
      `The engine does nothing for ${percent(share)} of the time. Let rollout and training overlap, run more samples at once, or look for slow environments and rewards.`,
  ),
  "trainer-idle": above(
    "idle/trainer",
    MAX_IDLE,
    (share) =>
      `The trainer does nothing for ${percent(share)} of the time: it waits for rollout. Let them overlap, give the engine more of the machine, or shorten replies.`,
  ),
  "flat-reward": (history, { flatSteps = DEFAULT_FLAT_STEPS }) => {
    const rewards = series(history, "reward/mean").slice(-flatSteps);
    if (rewards.length < flatSteps || Math.max(...rewards) - Math.min(...rewards) > 1e-6) return null;
    return `The mean reward has been ${short(rewards[0]!)} for ${flatSteps} steps. Look at trajectories: the reward may not see what the model does, or the task may be out of its reach.`;
  },
  "reply-length": (history, { maxReplyTokens }) => {
    const share = recent(history, "rollout/cut_replies");
    return maxReplyTokens !== undefined && share !== null && share > 0.5
      ? `${percent(share)} of replies are cut off before they end: rollout.sampling.maxTokens is ${maxReplyTokens}. Raise it, or penalize length.`
      : null;
  },
} satisfies Readonly<Record<string, Check>>;

/** Every code, each a heading of the guide. */
type HealthCode = keyof typeof checks;
/** All codes, in the order in which they are checked. */
export const healthCodes = Object.keys(checks) as readonly HealthCode[];

/** The package as its user finds it: the checkout, or where npm has put it. */
const place = import.meta.url.includes("/node_modules/") ? "node_modules/reroll/" : "";

/** Where a code is explained. */
export function healthLink(code: HealthCode): string {
  return `${place}docs/guides/runs.md#${code}`;
}

/** What looks wrong in the metrics of the last steps, the newest last. */
export function checkHealth(history: History, limits: HealthLimits = {}): readonly HealthWarning[] {
  if (history.length === 0) return [];
  return healthCodes.flatMap((code) => {
    const check: Check = checks[code];
    const text = check(history, limits);
    return text === null ? [] : [{ code, text, link: healthLink(code) }];
  });
}

/** Remembers as many steps as the checks look at, and what was said. */
export class HealthMonitor {
  readonly #limits: HealthLimits;
  readonly #stepsWell = new Map<HealthCode, number>();
  readonly #history: Metrics[] = [];

  constructor(limits: HealthLimits = {}) {
    this.#limits = limits;
  }

  /** Takes the metrics of one more step; gives the warnings that are new with it. */
  add(metrics: Metrics): readonly HealthWarning[] {
    this.#history.push(metrics);
    // The first step is kept: a slow decline shows only against where it began.
    if (this.#history.length > 1 + (this.#limits.flatSteps ?? DEFAULT_FLAT_STEPS)) this.#history.splice(1, 1);
    const found = checkHealth(this.#history, this.#limits);
    for (const [code, steps] of this.#stepsWell) {
      if (steps + 1 >= STEPS_TO_CLEAR) this.#stepsWell.delete(code);
      else this.#stepsWell.set(code, steps + 1);
    }
    const isNew = found.filter(({ code }) => !this.#stepsWell.has(code));
    for (const { code } of found) this.#stepsWell.set(code, 0);
    return isNew;
  }
}

function samplerGap(history: History): string | null {
  const weight = recent(history, "rollout_corr/rollout_is_mean");
  const size = recent(history, "rollout_corr/rollout_is_eff_sample_size");
  const kl = recent(history, "rollout_corr/kl");
  const gap = recent(history, "train/sampler_gap");
  const advice = "Check that both use the same weights, precision and temperature, or lower the staleness.";
  if (weight !== null && (weight < 0.5 || weight > 2)) {
    return `The mean importance weight is ${short(weight)} where 1 is on-policy: engine and trainer disagree. ${advice}`;
  }
  if (size !== null && size < 0.3) {
    return `Only ${percent(size)} of the tokens carry weight (effective sample size): the sampler is too far from the policy. ${advice}`;
  }
  if (kl !== null && Math.abs(kl) > 0.1) {
    return `KL between sampler and trainer is ${short(kl)} per token: they disagree. ${advice}`;
  }
  if (gap !== null && gap > 0.1) {
    return `Log-probs of engine and trainer differ by ${short(gap)} on average: they disagree. ${advice}`;
  }
  return null;
}

function badGradient(history: History): string | null {
  const norms = series(history, "train/grad_norm");
  const now = history.at(-1)?.["train/grad_norm"];
  if (now === undefined) return null;
  const advice = "Lower the learning rate, and look at the rewards and trajectories of this step.";
  if (!Number.isFinite(now)) {
    return `The norm of the gradient is ${now}: weights trained with it are lost. ${advice}`;
  }
  const usual = median(norms.slice(0, -1).filter(Number.isFinite));
  const isHuge = now > 1000 || (norms.length > WINDOW && usual > 0 && now > 100 * usual);
  return isHuge ? `The norm of the gradient is ${short(now)}, where ${short(usual)} is usual. ${advice}` : null;
}

/** A check that the mean of a metric over the last steps is not above a limit. */
function above(name: string, limit: number, say: (value: number) => string): Check {
  return (history) => {
    const value = recent(history, name);
    return value !== null && value > limit ? say(value) : null;
  };
}

/** The mean over the last steps that have the metric; null where fewer than three do. */
function recent(history: History, name: string): number | null {
  const values = series(history.slice(-WINDOW), name);
  return values.length < 3 ? null : mean(values);
}

function series(history: History, name: string): readonly number[] {
  return history.flatMap((metrics) => metrics[name] ?? []);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}
