/** From the groups of an evaluation to its report: a row per prompt, and estimates over them. Pure. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import type { TrajectoryGroup } from "../../flow/trajectory.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import type { Scorer } from "../../rewards/score-all.ts";
import { type Estimate, estimate, majorityReward, passAtK } from "./eval-statistics.ts";

/** What an evaluation found. */
export interface EvalReport {
  /** Samples of each prompt. */
  readonly samples: number;
  readonly temperature: number;
  /** The reward from which a sample counts as a success. */
  readonly success: number;
  readonly seed: number;
  /** `pass@k`, `mean@n` and, where the reward reads answers, `majority@n`, each with its interval of 95 %. */
  readonly scores: Readonly<Record<string, Estimate>>;
  /** The metrics of the rollout, such as failures and tokens. */
  readonly metrics: Metrics;
  readonly prompts: readonly EvalRow[];
}

interface EvalRow {
  readonly id: string;
  readonly domain: string;
  readonly rewards: readonly number[];
  /** What each reply answers, where the reward reads answers; null for a reply without one. */
  readonly answers?: readonly (string | null)[];
  /** The reward of the majority. */
  readonly majority?: number;
}

interface ReportOptions {
  readonly groups: readonly TrajectoryGroup[];
  readonly metrics: Metrics;
  readonly answersOf: Scorer["answersOf"] | null;
  readonly samples: number;
  readonly temperature: number;
  readonly success: number;
  readonly seed: number;
}

export function evalReport({ groups, answersOf, ...settings }: ReportOptions): EvalReport {
  const { samples, success, seed } = settings;
  if (groups.length === 0) {
    throw new RerollError(
      "DATA_EMPTY",
      "There is nothing to report: no prompt has all of its samples. Its data is empty, its prompts do not fit rollout.contextLength, or its samples fail.",
    );
  }
  const prompts = groups.map((group) => rowOf(group, answersOf));
  const successes = prompts.map(({ rewards }) => rewards.filter((reward) => reward >= success).length);
  const majorities = prompts.flatMap(({ majority }) => majority ?? []);
  const over = (name: string, values: readonly number[]) =>
    [name, estimate(values, new Random(deriveSeed(seed, "interval", name)))] as const;
  const scores = Object.fromEntries([
    over(
      `mean@${samples}`,
      prompts.map(({ rewards }) => rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length),
    ),
    ...ksUpTo(samples).map((k) =>
      over(
        `pass@${k}`,
        successes.map((count) => passAtK(samples, count, k)),
      ),
    ),
    ...(samples > 1 && majorities.length === prompts.length ? [over(`majority@${samples}`, majorities)] : []),
  ]);
  return { ...settings, scores, prompts };
}

/** Scores and metrics as one flat table. */
export function flatReport({ scores, metrics }: EvalReport): Metrics {
  const flat = Object.entries(scores).flatMap(([name, { value, low, high }]) => [
    [`eval/${name}`, value],
    [`eval/${name}/low`, low],
    [`eval/${name}/high`, high],
  ]);
  return { ...Object.fromEntries(flat), ...metrics };
}

function rowOf({ prompt, trajectories }: TrajectoryGroup, answersOf: ReportOptions["answersOf"]): EvalRow {
  const rewards = trajectories.map(({ reward }) => reward.total);
  const reader = answersOf?.(prompt);
  const row = { id: prompt.id, domain: prompt.domain, rewards };
  if (reader === undefined) return row;
  const answers = trajectories.map(({ turns }) => reader.read(turns.at(-1)?.replyText ?? ""));
  const votes = answers.map((answer, i) => ({ answer, reward: rewards[i]! }));
  return { ...row, answers, majority: majorityReward(votes, reader.isSame) };
}

/** 1, 2, 4, ... and the number of samples itself. */
function ksUpTo(samples: number): number[] {
  const ks: number[] = [];
  for (let k = 1; k < samples; k *= 2) ks.push(k);
  return [...ks, samples];
}
