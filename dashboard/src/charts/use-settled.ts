/** The window of charts as it is worth asking for: not at every step of a drag. */
import { useEffect, useState } from "preact/hooks";
import type { ChartWindow, Range } from "./chart-window.ts";

const DELAY_MS = 120;

/** The window once it has come to rest, and now and then while it moves; all of it at once. */
export function useSettled(window: ChartWindow): Range | null {
  const [settled, setSettled] = useState(window.value);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const settle = () => {
      clearTimeout(timer);
      timer = undefined;
      setSettled(window.value);
    };
    const stop = window.subscribe((value) => {
      if (value === null) settle();
      else timer ??= setTimeout(settle, DELAY_MS);
    });
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [window]);
  return settled;
}
