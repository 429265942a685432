import { afterEach, expect, test, vi } from "vitest";
import { stopSignal } from "./stop-signal.ts";

afterEach(() => vi.restoreAllMocks());

test("the first Ctrl-C asks to stop and is still listened for, the second ends the process", () => {
  const kill = vi.spyOn(process, "kill").mockReturnValue(true);
  const numBefore = process.listenerCount("SIGINT");
  let numAsked = 0;
  const { signal, release } = stopSignal(() => numAsked++);
  // What restores the cursor of a terminal ends the process where it is the only one to hear a signal.
  let numOthers = 0;
  const restoreCursor = () => {
    numOthers = process.listenerCount("SIGINT") - numBefore - 1;
  };
  process.on("SIGINT", restoreCursor);
  process.emit("SIGINT", "SIGINT");
  expect({ isAsked: signal.aborted, numAsked, numOthers }).toEqual({ isAsked: true, numAsked: 1, numOthers: 1 });
  expect(kill).not.toHaveBeenCalled();
  process.emit("SIGINT", "SIGINT");
  expect(kill).toHaveBeenCalledExactlyOnceWith(process.pid, "SIGINT");
  expect({ numAsked, numOthers }).toEqual({ numAsked: 1, numOthers: 0 });
  process.off("SIGINT", restoreCursor);
  release();
  expect(process.listenerCount("SIGINT")).toBe(numBefore);
});
