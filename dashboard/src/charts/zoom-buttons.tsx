/** Zoom for those without a wheel. */
import { type ChartWindow, type Range, zoom } from "./chart-window.ts";

export function ZoomButtons({ window, all }: { readonly window: ChartWindow; readonly all: Range }) {
  const showAll = () => {
    window.value = null;
  };
  return (
    <span class="buttons">
      <button type="button" aria-label="Zoom in" onClick={() => zoom(window, all, 0.5)}>
        +
      </button>
      <button type="button" aria-label="Zoom out" onClick={() => zoom(window, all, 2)}>
        −
      </button>
      <button type="button" onClick={showAll}>
        all
      </button>
    </span>
  );
}
