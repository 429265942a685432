import { expect, test } from "vitest";
import { RerollError } from "../errors/reroll-error.ts";
import type { Trajectory } from "../flow/trajectory.ts";
import { FailureCount } from "./failure-count.ts";

test("a run whose engines are all lost is told to see to them, and not to correct its environment", () => {
  const error = new RerollError("ENGINE_BROKEN", "All 2 engines are lost.");
  const failed = { groupId: "1", end: { kind: "failed", stage: "generation", error } } as unknown as Trajectory;
  const count = new FailureCount();
  for (let i = 1; i < 256; i++) expect(count.add(failed, 1)).toBeNull();
  expect(count.add(failed, 1)?.message).toBe(
    "The last 256 samples all failed, the last one with: All 2 engines are lost. See why engines are lost, and resume the run.",
  );
});
