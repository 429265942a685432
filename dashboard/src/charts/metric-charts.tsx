/**
 * The charts of one run or several: tools, and sections with a chart per metric.
 *
 * In: runs with their metrics. Out: charts that move together, with a line per run in each.
 */
import { useSignal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import type { NamedMetric, Series } from "../../../src/dashboard/answers.ts";
import { MetricName } from "../parts/hint.tsx";
import { Problem } from "../parts/problem.tsx";
import { Chart, type ChartLine } from "./chart.tsx";
import { type ChartSettings, ChartTools } from "./chart-tools.tsx";
import type { ChartWindow, Range } from "./chart-window.ts";
import { colorAt } from "./colors.ts";
import { MORE, sectionsOf } from "./metric-sections.ts";
import { type Axis, type ChartedRun, type SeriesByRun, useSeries } from "./use-series.ts";
import { useSettled } from "./use-settled.ts";

interface MetricChartsProps {
  readonly runs: readonly ChartedRun[];
  readonly metrics: readonly NamedMetric[];
}

export function MetricCharts({ runs, metrics }: MetricChartsProps) {
  const [settings, setSettings] = useState<ChartSettings>({ axis: "step", smoothing: 0, isLog: false, search: "" });
  const [isMoreOpen, setMoreOpen] = useState(false);
  const window: ChartWindow = useSignal<Range | null>(null);
  const { axis, smoothing, isLog, search } = settings;
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
  const change = (changes: Partial<ChartSettings>) => setSettings((before) => ({ ...before, ...changes }));
  return (
    <>
      <ChartTools {...{ settings, window, all }} onChange={change} />
      <Problem text={error} />
      {sections.map(({ title, metrics: own }) => (
        <section key={title}>
          <h2>
            {title === MORE ? (
              <button type="button" class="bare" aria-expanded={isShown(MORE)} onClick={() => setMoreOpen(!isMoreOpen)}>
                {isShown(MORE) ? "▾" : "▸"} {MORE} ({own.length})
              </button>
            ) : (
              title
            )}
          </h2>
          <div class="charts">
            {(isShown(title) ? own : []).map(({ name, info }) => (
              <figure key={name} data-metric={name}>
                <figcaption>
                  <MetricName name={name} info={info} />
                </figcaption>
                <Chart label={name} lines={lines.get(name) ?? []} all={rangeFor(name)} {...{ window, axis, isLog }} />
              </figure>
            ))}
          </div>
        </section>
      ))}
    </>
  );
}

function isSupervised(name: string): boolean {
  return name.startsWith("supervised/");
}

function linesOf(runs: readonly ChartedRun[], series: SeriesByRun, name: string, axis: Axis): readonly ChartLine[] {
  return runs.flatMap(({ key, startMs }, index) => {
    const one = series.get(key)?.get(name);
    if (one === undefined) return [];
    const label = runs.length === 1 ? (name.split("/").at(-1) ?? name) : key;
    return [{ label, color: colorAt(index), x: positions(one, axis, startMs), y: one.values, smooth: one.smooth }];
  });
}

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
