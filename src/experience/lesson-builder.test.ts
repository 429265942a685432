import { expect, test } from "vitest";
import { groupOf, turnOf } from "../../test/experience/groups.ts";
import type { SecondTry, TrajectoryGroup } from "../flow/trajectory.ts";
import { buildLessons } from "./lesson-builder.ts";

/** A group whose only try failed, and its second one, which read 1, 2 before everything. */
function triedAgain(isLearned: boolean): TrajectoryGroup {
  const group = groupOf("g", [{ turns: [{ promptIds: [10], replyIds: [99] }] }]);
  const turns = [
    turnOf({ promptIds: [1, 2, 10], replyIds: [20, 21], twinIds: [10] }),
    turnOf({ promptIds: [1, 2, 10, 20, 21, 30], replyIds: [40], twinIds: [10, 20, 21, 30] }),
  ];
  const reward = { total: Number(isLearned), score: 0, parts: {} };
  const secondTry: SecondTry = { reflection: "", turns, end: { kind: "completed" }, reward, isLearned };
  return { ...group, trajectories: group.trajectories.map((trajectory) => ({ ...trajectory, secondTry })) };
}

test("a second try that succeeded is learned as if its context had not been there", () => {
  const { lessons, metrics } = buildLessons([triedAgain(true)], {});
  expect(lessons).toEqual([
    {
      tokenIds: Int32Array.of(10, 20, 21, 30, 40),
      lossMask: Uint8Array.of(0, 1, 1, 0, 1),
      teacherPromptIds: Int32Array.of(1, 2, 10),
    },
  ]);
  expect(metrics["reflection/lessons"]).toBe(1);
});

test("one that failed is no lesson, nor is one too long for a forward pass with its context", () => {
  expect(buildLessons([triedAgain(false)], {}).lessons).toEqual([]);
  expect(buildLessons([triedAgain(true)], { maxTokens: 6 }).lessons).toEqual([]);
  expect(buildLessons([triedAgain(true)], { maxTokens: 7 }).lessons).toHaveLength(1);
});
