/**
 * Curves over steps or time, drawn by uPlot.
 *
 * In: lines with their points, and the window that charts share. Out: a chart that is redrawn at most once a frame, and only while
 * it can be seen.
 */
import { effect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { duration, number } from "../format.ts";
import { colorOf, theme } from "../theme.ts";
import { type ChartWindow, handleKey, type Range } from "./chart-window.ts";
import { listenToPointers } from "./drag.ts";

/** One run's values of one metric. */
export interface ChartLine {
  readonly label: string;
  readonly color: string;
  readonly x: readonly number[];
  readonly y: readonly (number | null)[];
  /** The moving average at the same points; empty for none. */
  readonly smooth: readonly (number | null)[];
}

/** How it is drawn. */
export interface ChartProps {
  readonly label: string;
  readonly lines: readonly ChartLine[];
  /** From where to where the data goes, also what is not in `lines` now. */
  readonly all: Range;
  readonly window: ChartWindow;
  readonly axis: "step" | "time";
  readonly isLog: boolean;
}

const HEIGHT = 190;

export function Chart(props: ChartProps) {
  const { label, lines, window, axis, isLog } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const look = `${axis} ${isLog} ${theme.value} ${lines.map((line) => `${line.label} ${line.smooth.length > 0}`).join()}`;

  // `look` is all that a new chart depends on.
  useEffect(() => {
    const element = box.current!;
    const chart = new uPlot(optionsOf(latest.current, element.clientWidth), dataOf(latest.current), element);
    plot.current = chart;
    const all = () => latest.current.all;
    const stops = [
      listenToPointers({ element: chart.over, window, all }),
      followWindow(chart, window, all, element),
      followSize(chart, element),
    ];
    return () => {
      for (const stop of stops) stop();
      chart.destroy();
      plot.current = null;
    };
  }, [look, window]);

  // Only new points are set; the rest makes a new chart.
  useEffect(() => {
    plot.current?.setData(dataOf(latest.current), false);
    plot.current?.setScale("x", scaleOf(window.value ?? latest.current.all));
  }, [lines]);

  return (
    <div
      ref={box}
      class="chart"
      role="application"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the window of all charts.
      tabIndex={0}
      aria-label={`${label}: ${describe(lines)}. Arrow keys pan, plus and minus zoom, 0 shows all.`}
      onKeyDown={(event) => {
        if (handleKey(window, latest.current.all, event.key)) event.preventDefault();
      }}
      onDblClick={() => {
        window.value = null;
      }}
    />
  );
}

function describe(lines: readonly ChartLine[]): string {
  return lines.map(({ label, y }) => `${label} ${number(y.findLast((value) => value !== null))}`).join(", ");
}

/** uPlot wants one x axis for all lines, and null where a line has no point. */
function dataOf({ lines, isLog }: ChartProps): uPlot.AlignedData {
  const shown = (values: readonly (number | null)[]) =>
    isLog ? values.map((value) => (value !== null && value > 0 ? value : null)) : [...values];
  const tables = lines.map(({ x, y, smooth }): uPlot.AlignedData => {
    const curves = smooth.length > 0 ? [shown(y), shown(smooth)] : [shown(y)];
    return [[...x], ...curves];
  });
  if (tables.length === 0) return [[]];
  return tables.length === 1 ? tables[0]! : uPlot.join(tables);
}

function optionsOf({ lines, window, axis, isLog, all }: ChartProps, width: number): uPlot.Options {
  const [text, grid] = [colorOf("--muted"), colorOf("--line")];
  const axisLook = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
  const xText = (value: number) => (axis === "step" ? String(value) : duration(1000 * value));
  return {
    width,
    height: HEIGHT,
    padding: [8, 8, 0, 0],
    scales: {
      x: { time: false, ...scaleOf(window.value ?? all) },
      y: { distr: isLog ? 3 : 1, ...(!isLog && { range: rangeOfValues }) },
    },
    axes: [
      { ...axisLook, size: 28, values: (_, ticks) => ticks.map(xText) },
      { ...axisLook, size: 54, values: (_, ticks) => ticks.map((value) => (value === null ? "" : number(value))) },
    ],
    series: [
      { label: axis, value: (_, value) => (value === null ? "–" : xText(value)) },
      ...lines.flatMap(({ label, color, smooth }) => {
        const line = { label, stroke: color, width: 1.6, spanGaps: lines.length > 1, points: { size: 4 }, value };
        return smooth.length === 0
          ? [line]
          : [
              { ...line, stroke: `${color}44`, width: 1 },
              { ...line, label: `${label} ~` },
            ];
      }),
    ],
    cursor: { sync: { key: "charts" }, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
    legend: { live: true },
    hooks: {
      // Where nobody points, the legend shows the last values.
      setCursor: [(chart) => chart.cursor.idx == null && showLast(chart)],
      ready: [showLast],
      setData: [showLast],
      setSelect: [
        (chart) => {
          const { left, width: selected } = chart.select;
          if (selected > 3) window.value = [chart.posToVal(left, "x"), chart.posToVal(left + selected, "x")];
          chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        },
      ],
    },
  };
}

/** Differences this small beside the values are rounding, not something to look at. */
const ROUNDING = 1e-9;

/** Some room around the curve; a constant is in the middle. */
function rangeOfValues(_: uPlot, min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1];
  const isConstant = max - min <= ROUNDING * Math.max(Math.abs(min), Math.abs(max));
  const room = isConstant ? Math.abs(min) / 2 || 1 : 0.05 * (max - min);
  return [min - room, max + room];
}

/** Of each line its own last point: one run may have fewer steps than another. */
function showLast(chart: uPlot): void {
  if (chart.data[0].length > 0) chart.setLegend({ idxs: chart.data.map(lastPoint) });
}

function lastPoint(values: ArrayLike<unknown>): number {
  let last = values.length - 1;
  while (last > 0 && values[last] == null) last--;
  return last;
}

function value(_: uPlot, raw: number | null): string {
  return number(raw);
}

function scaleOf([min, max]: Range): { min: number; max: number } {
  return { min, max: max > min ? max : min + 1 };
}

/** Sets the chart's scale once a frame while it is on the screen, and when it comes there. */
function followWindow(chart: uPlot, window: ChartWindow, all: () => Range, element: HTMLElement): () => void {
  let frame = 0;
  let isSeen = true;
  const draw = () => {
    frame = 0;
    chart.setScale("x", scaleOf(window.value ?? all()));
  };
  const observer = new IntersectionObserver((entries) => {
    isSeen = entries.at(-1)?.isIntersecting ?? true;
    if (isSeen) draw();
  });
  observer.observe(element);
  const stop = effect(() => {
    window.value;
    if (isSeen && frame === 0) frame = requestAnimationFrame(draw);
  });
  return () => {
    stop();
    observer.disconnect();
    cancelAnimationFrame(frame);
  };
}

function followSize(chart: uPlot, element: HTMLElement): () => void {
  const observer = new ResizeObserver(() => {
    if (element.clientWidth !== chart.width) chart.setSize({ width: element.clientWidth, height: HEIGHT });
  });
  observer.observe(element);
  return () => observer.disconnect();
}
