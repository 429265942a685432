/**
 * Pointers over a chart.
 *
 * Shift and drag, the middle button or a finger pans; Ctrl and the wheel, or two fingers on a pad, zooms; a sideways wheel pans. Plain
 * dragging is left to the chart, which selects.
 */
import { type ChartWindow, pan, type Range, zoom } from "./chart-window.ts";

/** What is drawn on, and what it shows. */
export interface DragArea {
  readonly element: HTMLElement;
  readonly window: ChartWindow;
  readonly all: () => Range;
  /** Whether plain dragging pans too. */
  readonly alwaysPans?: boolean;
}

/** Listens until the returned function is called. */
export function listenToPointers({ element, window, all, alwaysPans = false }: DragArea): () => void {
  const stop = new AbortController();
  const { signal } = stop;
  let lastX: number | null = null;
  const isPan = (event: PointerEvent) =>
    alwaysPans || event.shiftKey || event.button === 1 || event.pointerType === "touch";
  element.addEventListener(
    "pointerdown",
    (event) => {
      if (!isPan(event)) return;
      lastX = event.clientX;
      element.setPointerCapture(event.pointerId);
    },
    { signal },
  );
  element.addEventListener(
    "pointermove",
    (event) => {
      if (lastX === null) return;
      pan(window, all(), (lastX - event.clientX) / Math.max(1, element.clientWidth));
      lastX = event.clientX;
    },
    { signal },
  );
  const release = () => {
    lastX = null;
  };
  element.addEventListener("pointerup", release, { signal });
  element.addEventListener("pointercancel", release, { signal });
  // The chart would begin to select.
  element.addEventListener("mousedown", (event) => lastX !== null && event.stopPropagation(), {
    signal,
    capture: true,
  });
  element.addEventListener(
    "wheel",
    (event) => {
      const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!isSideways && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (isSideways) return pan(window, all(), event.deltaX / element.clientWidth);
      const { left, width } = element.getBoundingClientRect();
      const [from, to] = window.value ?? all();
      zoom(window, all(), Math.exp(event.deltaY / 300), from + ((event.clientX - left) / width) * (to - from));
    },
    { signal, passive: false },
  );
  return () => stop.abort();
}
