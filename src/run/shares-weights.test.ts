import { expect, test } from "vitest";
import { exampleConfig } from "../../test/cli/example-run.ts";
import { hasLentEngines } from "./shares-weights.ts";

const isLent = (isOnGpu: boolean, ...sets: string[]) => hasLentEngines(exampleConfig(...sets), isOnGpu);

test("a GPU holds weights once in both loops, and the memory of a CPU only where loops take turns", () => {
  expect(isLent(true)).toBe(true);
  expect(isLent(false)).toBe(true);
  expect(isLent(true, "loop.type=async")).toBe(true);
  expect(isLent(false, "loop.type=async")).toBe(false);
});

test("engines that draw with weights from before the last step, or with others than are trained, have a copy", () => {
  const older = ["loop.type=async", "loop.syncInterval=2", "loop.maxStaleness=2"];
  expect(isLent(true, ...older)).toBe(false);
  expect(isLent(true, "model.lora.rank=4")).toBe(false);
  expect(isLent(true, 'placement.engine.workers="processes"')).toBe(false);
});
