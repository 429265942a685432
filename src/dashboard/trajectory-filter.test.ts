import { expect, test } from "vitest";
import type { TrajectoryRow } from "./answers.ts";
import { filterTrajectories, withAdvantages } from "./trajectory-filter.ts";
import { trajectoryQuery } from "./trajectory-query.ts";

function row(id: string, changes: Partial<TrajectoryRow> = {}): TrajectoryRow {
  return {
    ...{ step: 1, id, groupId: "g", sampleIndex: 0, fate: "delivered", domain: "math", end: "completed" },
    ...{ reward: 0, advantage: null, numTurns: 1, numTokens: 10 },
    ...changes,
  };
}

const rows = [
  row("a", { reward: 1, numTokens: 5 }),
  row("b", { reward: 3, end: "truncated: tokens", numTokens: 50 }),
  row("c", { reward: 0, fate: "failed", end: "failed: reward" }),
  row("d", { step: 2, groupId: "h", reward: 7, domain: "code", advantage: 0.25 }),
];

function idsOf(query: Record<string, string>): readonly string[] {
  return filterTrajectories(withAdvantages(rows), trajectoryQuery.parse(query)).rows.map(({ id }) => id);
}

test("an advantage is the reward minus the mean of those of the group that did not fail", () => {
  expect(withAdvantages(rows).map(({ advantage }) => advantage)).toEqual([-1, 1, null, 0.25]);
});

test("each filter leaves what fits it, with bounds included", () => {
  expect(idsOf({ stepMax: "1", sort: "reward" })).toEqual(["b", "a", "c"]);
  expect(idsOf({ rewardMin: "1", rewardMax: "3" })).toEqual(["a", "b"]);
  expect(idsOf({ tokensMin: "50" })).toEqual(["b"]);
  expect(idsOf({ end: "completed" })).toEqual(["d", "a"]);
  expect(idsOf({ domain: "code" })).toEqual(["d"]);
  expect(idsOf({ fate: "failed" })).toEqual(["c"]);
});

test("a page is cut out of what fits, in the order asked for", () => {
  expect(idsOf({ sort: "numTokens", order: "up", offset: "1", limit: "2" })).toEqual(["c", "d"]);
  expect(filterTrajectories(rows, trajectoryQuery.parse({ limit: "1" }))).toMatchObject({
    numMatching: 4,
    numTotal: 4,
    ends: ["completed", "failed: reward", "truncated: tokens"],
    domains: ["code", "math"],
  });
});

test("an advantage that is not known sorts last from the top", () => {
  expect(idsOf({ sort: "advantage" })).toEqual(["b", "d", "a", "c"]);
});
