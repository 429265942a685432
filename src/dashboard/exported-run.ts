/** A run inside of a page: what `reroll dashboard --export` writes, and the page reads instead of asking a server. */
import type { RunAnswer, Series, SpansAnswer, SummaryAnswer, TrajectoryAnswer, TrajectoryRow } from "./answers.ts";

/** The id of the element that holds it as JSON. */
export const EXPORTED_ID = "exported-run";

export interface ExportedRun {
  readonly run: RunAnswer;
  readonly summary: SummaryAnswer;
  /** Every metric, thinned out over the whole run. */
  readonly series: readonly Series[];
  /** The trajectories that are in the file, and each in full by `<step>/<id>`. */
  readonly rows: readonly TrajectoryRow[];
  readonly trajectories: Readonly<Record<string, TrajectoryAnswer>>;
  /** The timeline of the whole run. */
  readonly spans: SpansAnswer;
}
