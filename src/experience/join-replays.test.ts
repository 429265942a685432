import { expect, test } from "vitest";
import { groupOf } from "../../test/experience/groups.ts";
import { joinReplays, numReplays } from "./join-replays.ts";
import { buildSamples } from "./sample-builder.ts";

test("replays get groups and trajectories of their own, after the fresh ones", () => {
  const turn = (first: number) => ({ turns: [{ promptIds: [first], replyIds: [1] }] });
  const { samples: fresh } = buildSamples([groupOf("a", [turn(1), turn(2)]), groupOf("b", [turn(3)])]);
  // Its second trajectory is forked, so it has two samples.
  const forked = { turns: [...turn(5).turns, ...turn(6).turns] };
  const { samples: old } = buildSamples([groupOf("c", [turn(4), forked])]);
  const joined = joinReplays(fresh, [
    { id: 7, samples: old, version: 0, weight: 0.5 },
    { id: 9, samples: old, version: 0, weight: 1 },
  ]);
  expect(joined.map(({ tokenIds, group, trajectory, weight }) => [tokenIds[0], group, trajectory, weight])).toEqual([
    [1, 0, 0, undefined],
    [2, 0, 1, undefined],
    [3, 1, 2, undefined],
    [4, 2, 3, 0.5],
    [5, 2, 4, 0.5],
    [6, 2, 4, 0.5],
    [4, 3, 5, 1],
    [5, 3, 6, 1],
    [6, 3, 6, 1],
  ]);
});

test("so many replays are drawn that they make up their share of the batch", () => {
  expect(numReplays(12, 0.25)).toBe(4);
  expect(numReplays(8, 0.5)).toBe(8);
  expect(numReplays(8, 0)).toBe(0);
  expect(numReplays(1, 0.2)).toBe(0);
});
