import { expect, test } from "vitest";
import { empty, zeros } from "./create.ts";
import { memoryStats, numThreads, resetPeakMemory, setNumThreads } from "./memory.ts";
import { tensorScope } from "./scope.ts";

test("live bytes rise by at least what a tensor holds and fall to where they were", () => {
  const before = memoryStats();
  const made = zeros([1000]);
  const during = memoryStats();
  expect(during.liveBytes - before.liveBytes).toBeGreaterThanOrEqual(4000);
  expect(during.liveTensors - before.liveTensors).toBe(1);
  made.dispose();
  expect(memoryStats().liveBytes).toBe(before.liveBytes);
});

test("the peak remembers what is gone, until it is reset", () => {
  resetPeakMemory();
  const start = memoryStats();
  expect(start.peakBytes).toBe(start.liveBytes);
  tensorScope(() => void empty([1_000_000]));
  expect(memoryStats().peakBytes - start.liveBytes).toBeGreaterThanOrEqual(4_000_000);
  resetPeakMemory();
  expect(memoryStats().peakBytes).toBe(memoryStats().liveBytes);
});

test("the number of threads is set and read, within reason", () => {
  const before = numThreads();
  setNumThreads(2);
  expect(numThreads()).toBe(2);
  setNumThreads(before);
  for (const count of [0, -1, 1.5, 5000, Number.NaN]) expect(() => setNumThreads(count)).toThrow(/setNumThreads/);
});
