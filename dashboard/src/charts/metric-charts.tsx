/**
 * The charts of one run or several: sections, tools, and the points that they show.
 *
 * In: runs with their metrics. Out: a chart per metric, with a line per run. Points are asked for once for all charts: thinned out over
 * all there is, and in full where one has zoomed in.
 */
import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { NamedMetric, Series, SeriesAnswer } from "../../../src/dashboard/answers.ts";
import { fetchAnswer, runPath } from "../api.ts";
import { MetricName } from "../parts/hint.tsx";
import { Problem } from "../parts/problem.tsx";
import { Chart } from "./chart.tsx";
import { type ChartWindow, type Range, zoom } from "./chart-window.ts";
import { colorAt } from "./colors.ts";
import { MORE, sectionsOf } from "./metric-sections.ts";

/** A run as far as charts need it. */
export interface ChartedRun {
  readonly key: string;
  readonly startMs: number;
  readonly revision: number;
}

type Axis = "step" | "time";

const POINTS = 800;
const DETAIL_DELAY_MS = 120;

export function MetricCharts({
  runs,
  metrics,
}: {
  readonly runs: readonly ChartedRun[];
  readonly metrics: readonly NamedMetric[];
}) {
  const [axis, setAxis] = useState<Axis>("step");
  const [smoothing, setSmoothing] = useState(0);
  const [isLog, setLog] = useState(false);
  const [search, setSearch] = useState("");
  const [isMoreOpen, setMoreOpen] = useState(false);
  const window: ChartWindow = useSignal<Range | null>(null);
  const sections = useMemo(
    () => sectionsOf(metrics.filter(({ name }) => name.includes(search.trim().toLowerCase()))),
    [metrics, search],
  );
  const isShown = (title: string) => title !== MORE || isMoreOpen || search !== "";
  const names = sections.flatMap((section) => (isShown(section.title) ? section.metrics.map(({ name }) => name) : []));
  const { series, error } = useSeries(runs, names, { axis, smoothing, range: useSettled(window) });
  const runNames = runs.map(({ key }) => key).join("/");
  // Lines change with their points and their runs, not with a rendering.
  const { all, lines } = useMemo(() => {
    const lines = new Map(names.map((name) => [name, linesOf(runs, series, name, axis)]));
    return { all: rangeOf(runs, series, axis, (name) => !isSupervised(name)), lines };
  }, [series, axis, runNames, names.join()]);
  // Supervised steps are counted on their own.
  const rangeFor = (name: string) => (isSupervised(name) ? rangeOf(runs, series, axis, isSupervised) : all);
  const chooseAxis = (next: Axis) => {
    window.value = null;
    setAxis(next);
  };
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Charts">
        <input
          type="search"
          placeholder="Find a metric"
          aria-label="Find a metric"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <label>
          Smoothing
          <input
            type="range"
            min="0"
            max="0.99"
            step="0.01"
            value={smoothing}
            onInput={(event) => setSmoothing(Number(event.currentTarget.value))}
          />
          <output>{smoothing.toFixed(2)}</output>
        </label>
        <label>
          x axis
          <select value={axis} onChange={(event) => chooseAxis(event.currentTarget.value as Axis)}>
            <option value="step">step</option>
            <option value="time">wall clock</option>
          </select>
        </label>
        <label>
          <input type="checkbox" checked={isLog} onChange={(event) => setLog(event.currentTarget.checked)} />
          log scale
        </label>
        <span class="buttons">
          <button type="button" aria-label="Zoom in" onClick={() => zoom(window, all, 0.5)}>
            +
          </button>
          <button type="button" aria-label="Zoom out" onClick={() => zoom(window, all, 2)}>
            −
          </button>
          <button
            type="button"
            onClick={() => {
              window.value = null;
            }}
          >
            all
          </button>
        </span>
        <small class="muted wide-only">Drag to zoom, Shift and drag to pan, double-click to see all.</small>
      </div>
      <Problem text={error} />
      {sections.map((section) => (
        <section key={section.title}>
          <h2>
            {section.title === MORE ? (
              <button type="button" class="bare" aria-expanded={isShown(MORE)} onClick={() => setMoreOpen(!isMoreOpen)}>
                {isShown(MORE) ? "▾" : "▸"} {MORE} ({section.metrics.length})
              </button>
            ) : (
              section.title
            )}
          </h2>
          {isShown(section.title) && (
            <div class="charts">
              {section.metrics.map(({ name, info }) => (
                <figure key={name} data-metric={name}>
                  <figcaption>
                    <MetricName name={name} info={info} />
                  </figcaption>
                  <Chart label={name} lines={lines.get(name) ?? []} all={rangeFor(name)} {...{ window, axis, isLog }} />
                </figure>
              ))}
            </div>
          )}
        </section>
      ))}
    </>
  );
}

function isSupervised(name: string): boolean {
  return name.startsWith("supervised/");
}

/** By run, then by name. */
type SeriesByRun = ReadonlyMap<string, ReadonlyMap<string, Series>>;

/** Asks again when there is something new, when the window moves, and when smoothing or axis change. */
function useSeries(
  runs: readonly ChartedRun[],
  names: readonly string[],
  { axis, smoothing, range }: { readonly axis: Axis; readonly smoothing: number; readonly range: Range | null },
): { readonly series: SeriesByRun; readonly error: string | undefined } {
  const [state, setState] = useState<{ series: SeriesByRun; error: string | undefined }>({
    series: new Map(),
    error: undefined,
  });
  const wanted = JSON.stringify([runs, names, axis, smoothing, range]);
  // `wanted` holds all of them.
  useEffect(() => {
    if (names.length === 0 || runs.length === 0) return;
    const stop = new AbortController();
    const ask = async ({ key, startMs }: ChartedRun) => {
      const { series } = await fetchAnswer<SeriesAnswer>(
        runPath(key, "/series", {
          ...{ name: names, axis, smoothing },
          ...(range === null ? { points: POINTS } : { points: 3 * POINTS, ...around(range, axis, startMs) }),
        }),
        stop.signal,
      );
      return [key, new Map(series.map((one) => [one.name, one]))] as const;
    };
    const askAll = () =>
      Promise.all(runs.map(ask)).then(
        (answers) => setState({ series: new Map(answers), error: undefined }),
        (error: Error) => {
          if (!stop.signal.aborted) setState((before) => ({ ...before, error: error.message }));
        },
      );
    void askAll();
    return () => stop.abort();
  }, [wanted]);
  return state;
}

/** The window and as much again on each side, so that panning finds points. */
function around([from, to]: Range, axis: Axis, startMs: number): { readonly from: number; readonly to: number } {
  const width = to - from;
  const place = (x: number) => (axis === "step" ? x : startMs + 1000 * x);
  return { from: place(from - width), to: place(to + width) };
}

function linesOf(runs: readonly ChartedRun[], series: SeriesByRun, name: string, axis: Axis) {
  return runs.flatMap(({ key, startMs }, index) => {
    const one = series.get(key)?.get(name);
    if (one === undefined) return [];
    const label = runs.length === 1 ? (name.split("/").at(-1) ?? name) : key;
    return [{ label, color: colorAt(index), x: positions(one, axis, startMs), y: one.values, smooth: one.smooth }];
  });
}

/** Seconds since the run's start on the wall clock, so that runs can be compared. */
function positions({ steps, timesMs }: Series, axis: Axis, startMs: number): readonly number[] {
  return axis === "step" ? steps : timesMs.map((ms) => (ms - startMs) / 1000);
}

/** From the first to the last point of these metrics, also where only a stretch of them is here. */
function rangeOf(
  runs: readonly ChartedRun[],
  series: SeriesByRun,
  axis: Axis,
  isPart: (name: string) => boolean,
): Range {
  const ranges = runs.flatMap(({ key, startMs }) =>
    [...(series.get(key)?.values() ?? [])]
      .filter(({ name }) => isPart(name))
      .map(({ stepRange, timeRange }) => (axis === "step" ? stepRange : timeRange.map((ms) => (ms - startMs) / 1000))),
  );
  if (ranges.length === 0) return [0, 1];
  return [Math.min(...ranges.map(([first]) => first!)), Math.max(...ranges.map(([, last]) => last!))];
}

/** The window once it has come to rest, and now and then while it moves. */
function useSettled(window: ChartWindow): Range | null {
  const [settled, setSettled] = useState(window.value);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = window.subscribe((value) => {
      if (value === null) {
        clearTimeout(timer);
        timer = undefined;
        setSettled(null);
      } else {
        timer ??= setTimeout(() => {
          timer = undefined;
          setSettled(window.value);
        }, DETAIL_DELAY_MS);
      }
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [window]);
  return settled;
}
