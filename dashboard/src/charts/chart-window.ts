/**
 * The stretch of the x axis that is seen, shared by all charts of a page: zoom one, and all follow.
 *
 * null is all there is. The functions move it in steps, for keys, wheels and fingers.
 */
import type { Signal } from "@preact/signals";

/** From and to, in units of the axis. */
export type Range = readonly [from: number, to: number];
/** Shared by the charts that move together. */
export type ChartWindow = Signal<Range | null>;

/** Moves by a part of what is seen: 0.2 to the right, -0.2 to the left. */
export function pan(window: ChartWindow, all: Range, share: number): void {
  const [from, to] = window.value ?? all;
  const shift = (to - from) * share;
  window.value = within([from + shift, to + shift], all);
}

/** Shows a part of what is seen, around a point: 0.5 is half as much. */
export function zoom(window: ChartWindow, all: Range, factor: number, around?: number): void {
  const [from, to] = window.value ?? all;
  const center = around ?? (from + to) / 2;
  const next: Range = [center - (center - from) * factor, center + (to - center) * factor];
  window.value = next[1] - next[0] >= all[1] - all[0] ? null : within(next, all);
}

/** What a key means to a chart; whether it meant anything. */
export function handleKey(window: ChartWindow, all: Range, key: string): boolean {
  if (key === "ArrowLeft") pan(window, all, -0.2);
  else if (key === "ArrowRight") pan(window, all, 0.2);
  else if (key === "+" || key === "=") zoom(window, all, 0.5);
  else if (key === "-") zoom(window, all, 2);
  else if (key === "0" || key === "Escape") window.value = null;
  else return false;
  return true;
}

/** Keeps the middle of what is seen on what there is. */
function within([from, to]: Range, all: Range): Range {
  const middle = (from + to) / 2;
  const shift = Math.max(all[0] - middle, 0) + Math.min(all[1] - middle, 0);
  return [from + shift, to + shift];
}
