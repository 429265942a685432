/** What the dashboard's server answers, as types: the page is written against them. */
import type { MetricInfo } from "../flow/metrics.ts";
import type { WorkerFacts } from "../flow/worker-facts.ts";
import type { MetricKind, RunInfo, SpanRecord, WarningRecord } from "../tracking/run-record.ts";
import type { TrajectoryRecord } from "../tracking/trajectory-record.ts";

/** `GET /api/runs` */
export interface RunsAnswer {
  readonly runs: readonly ListedRun[];
}

/** A run in the list. Its key is the name of its folder, and is part of all addresses. */
export interface ListedRun {
  readonly key: string;
  readonly info: RunInfo;
}

/** `GET /api/runs/:run/summary` */
export interface SummaryAnswer {
  /** The mean reward over the run, thinned out for a sparkline. */
  readonly rewards: readonly (number | null)[];
  readonly lastStep: number;
  readonly lastReward: number | null;
}

/** `GET /api/runs/:run` */
export interface RunAnswer extends ListedRun {
  /** The resolved config as it was written; null where it cannot be read. */
  readonly config: unknown;
  readonly warnings: readonly WarningRecord[];
  /** Every metric that the run has written. */
  readonly metrics: readonly NamedMetric[];
}

/** A metric of a run and what its name means; null if it has no description. */
export interface NamedMetric {
  readonly name: string;
  readonly kind: MetricKind;
  readonly numPoints: number;
  readonly info: MetricInfo | null;
}

/** `GET /api/runs/:run/series` */
export interface SeriesAnswer {
  readonly series: readonly Series[];
}

/** Points of one metric in the order in which they were written; NaN and the infinities are null. */
export interface Series {
  readonly name: string;
  readonly steps: readonly number[];
  readonly timesMs: readonly number[];
  readonly values: readonly (number | null)[];
  /** The moving average at the same points, over all points and not only these; empty when none was asked for. */
  readonly smooth: readonly (number | null)[];
  /** Number of points in the run: more than are here if they were thinned out, or if only a stretch was asked for. */
  readonly numPoints: number;
  /** Steps of the first and the last of all points. */
  readonly stepRange: readonly [first: number, last: number];
  readonly timeRange: readonly [firstMs: number, lastMs: number];
}

/** `GET /api/runs/:run/trajectories` */
export interface TrajectoriesAnswer {
  readonly rows: readonly TrajectoryRow[];
  /** Number of trajectories that match the filter, and of all trajectories. */
  readonly numMatching: number;
  readonly numTotal: number;
  /** Whether files are still being read for the first time: more will come. */
  readonly isReading: boolean;
  /** Values to choose from in the filters. */
  readonly ends: readonly string[];
  readonly domains: readonly string[];
  readonly steps: readonly number[];
}

/** A trajectory in a list. */
export interface TrajectoryRow {
  readonly step: number;
  readonly id: string;
  readonly groupId: string;
  readonly sampleIndex: number;
  readonly fate: TrajectoryRecord["fate"];
  readonly domain: string;
  /** How it ended, with the limit or the stage: `truncated: turns`. */
  readonly end: string;
  readonly reward: number;
  readonly advantage: number | null;
  readonly numTurns: number;
  /** Tokens that the model wrote. */
  readonly numTokens: number;
}

/** `GET /api/runs/:run/trajectories/:step/:id` */
export interface TrajectoryAnswer {
  readonly record: TrajectoryRecord;
  /** The recorded advantage, or else the reward minus the mean of the group; null if it was not trained on. */
  readonly advantage: number | null;
  readonly isAdvantageRecorded: boolean;
  /** The whole group, itself included, in the order of samples. */
  readonly group: readonly TrajectoryRow[];
  /** Texts of the tokens by turn; null if the run's folder has no tokenizer. */
  readonly texts: readonly TurnTexts[] | null;
}

/** The texts of a turn's tokens, one for each. */
export interface TurnTexts {
  readonly prompt: readonly string[];
  readonly reply: readonly string[];
}

/** `GET /api/runs/:run/spans` */
export interface SpansAnswer {
  /** Start and end of the whole run, in milliseconds since 1970; null before the first span. */
  readonly range: readonly [startMs: number, endMs: number] | null;
  /** Spans in the window that was asked for; those too short or too close to be told apart are joined. */
  readonly spans: readonly SpanRecord[];
  /** Share of the window in which each worker had nothing to do. */
  readonly idle: readonly { readonly worker: string; readonly share: number }[];
  /** Single workers, what they host and what it holds. Their names are among those of `idle`. */
  readonly workers: readonly WorkerFacts[];
}

/** What `GET /api/runs/:run/events` sends, each under the name of its field. */
export interface LiveEvents {
  readonly info: RunInfo;
  /** The last record, and how many new ones there are. The event's id is the byte after them. */
  readonly metrics: { readonly step: number; readonly timeMs: number; readonly numNew: number };
  readonly warnings: readonly WarningRecord[];
  readonly trajectories: { readonly numSteps: number };
  readonly spans: { readonly numBytes: number };
  readonly gone: { readonly message: string };
}

/** The answer to any request that fails. */
export interface ErrorAnswer {
  readonly error: { readonly code: string; readonly message: string };
}
