/** How the charts of a page are drawn, and the tools to change it. */
import type { ChartWindow, Range } from "./chart-window.ts";
import type { Axis } from "./use-series.ts";
import { ZoomButtons } from "./zoom-buttons.tsx";

/** What can be changed. */
export interface ChartSettings {
  readonly axis: Axis;
  /** Weight of the past in the moving average; 0 draws none. */
  readonly smoothing: number;
  readonly isLog: boolean;
  /** A part of the names of metrics. */
  readonly search: string;
}

interface ChartToolsProps {
  readonly settings: ChartSettings;
  readonly onChange: (changes: Partial<ChartSettings>) => void;
  readonly window: ChartWindow;
  readonly all: Range;
}

export function ChartTools({ settings, onChange, window, all }: ChartToolsProps) {
  const { axis, smoothing, isLog, search } = settings;
  const chooseAxis = (next: string) => {
    window.value = null;
    onChange({ axis: next === "time" ? "time" : "step" });
  };
  return (
    <div class="tools" role="toolbar" aria-label="Charts">
      <input
        type="search"
        placeholder="Find a metric"
        aria-label="Find a metric"
        value={search}
        onInput={(event) => onChange({ search: event.currentTarget.value })}
      />
      <label>
        Smoothing
        <input
          type="range"
          min="0"
          max="0.99"
          step="0.01"
          value={smoothing}
          onInput={(event) => onChange({ smoothing: Number(event.currentTarget.value) })}
        />
        <output>{smoothing.toFixed(2)}</output>
      </label>
      <label>
        x axis
        <select value={axis} onChange={(event) => chooseAxis(event.currentTarget.value)}>
          <option value="step">step</option>
          <option value="time">wall clock</option>
        </select>
      </label>
      <label>
        <input type="checkbox" checked={isLog} onChange={(event) => onChange({ isLog: event.currentTarget.checked })} />
        log scale
      </label>
      <ZoomButtons window={window} all={all} />
      <small class="muted wide-only">Drag to zoom, Shift and drag to pan, double-click to see all.</small>
    </div>
  );
}
