/**
 * The points of many metrics of several runs.
 *
 * In: what is seen. Out: what the server has of it: thinned out over all there is, and in full where one has zoomed in. Asks again when
 * there is something new, and when window, smoothing or axis change.
 */
import { useEffect, useState } from "preact/hooks";
import type { Series, SeriesAnswer } from "../../../src/dashboard/answers.ts";
import { fetchAnswer, runPath } from "../api.ts";
import type { Range } from "./chart-window.ts";

/** A run as far as charts need it. */
export interface ChartedRun {
  readonly key: string;
  readonly startMs: number;
  /** Grows when there is something new. */
  readonly revision: number;
}

/** Steps, or seconds since the start of the run, so that runs can be compared. */
export type Axis = "step" | "time";

/** By run, then by name. */
export type SeriesByRun = ReadonlyMap<string, ReadonlyMap<string, Series>>;

/** How the points are wanted. */
export interface SeriesLook {
  readonly axis: Axis;
  readonly smoothing: number;
  /** null for all there is. */
  readonly range: Range | null;
}

interface SeriesState {
  readonly series: SeriesByRun;
  readonly error: string | undefined;
}

const POINTS = 800;
/** Names in one request: all of them would be too long an address. */
const NAMES_AT_ONCE = 100;

/** What was there before stays until the next is there. */
export function useSeries(runs: readonly ChartedRun[], names: readonly string[], look: SeriesLook): SeriesState {
  const [state, setState] = useState<SeriesState>({ series: new Map(), error: undefined });
  const wanted = JSON.stringify([runs, names, look]);
  // `wanted` stands for all three.
  useEffect(() => {
    const stop = new AbortController();
    const ask = async (run: ChartedRun) => [run.key, await fetchSeries(run, names, look, stop.signal)] as const;
    Promise.all(runs.map(ask)).then(
      (answers) => setState({ series: new Map(answers), error: undefined }),
      (error: Error) => {
        if (!stop.signal.aborted) setState((before) => ({ ...before, error: error.message }));
      },
    );
    return () => stop.abort();
  }, [wanted]);
  return state;
}

async function fetchSeries(
  { key, startMs }: ChartedRun,
  names: readonly string[],
  { axis, smoothing, range }: SeriesLook,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Series>> {
  const stretch = range === null ? { points: POINTS } : { points: 3 * POINTS, ...around(range, axis, startMs) };
  const parts = Array.from({ length: Math.ceil(names.length / NAMES_AT_ONCE) }, (_, i) =>
    names.slice(i * NAMES_AT_ONCE, (i + 1) * NAMES_AT_ONCE),
  );
  const answers = await Promise.all(
    parts.map((name) =>
      fetchAnswer<SeriesAnswer>(runPath(key, "/series", { name, axis, smoothing, ...stretch }), signal),
    ),
  );
  return new Map(answers.flatMap(({ series }) => series.map((one) => [one.name, one] as const)));
}

/** The window and as much again on each side, so that panning finds points. */
function around([from, to]: Range, axis: Axis, startMs: number): { readonly from: number; readonly to: number } {
  const width = to - from;
  const place = (x: number) => (axis === "step" ? x : startMs + 1000 * x);
  return { from: place(from - width), to: place(to + width) };
}
