/**
 * Which trajectories a list shows, and in which order. Pure.
 *
 * In: rows of a run and a query. Out: the page that was asked for.
 */
import type { TrajectoriesAnswer, TrajectoryRow } from "./answers.ts";
import type { TrajectoryQuery } from "./trajectory-query.ts";

/** The part of an answer that depends on the filter. */
export function filterTrajectories(
  rows: readonly TrajectoryRow[],
  query: TrajectoryQuery,
): Pick<TrajectoriesAnswer, "rows" | "numMatching" | "numTotal" | "ends" | "domains"> {
  const matching = rows.filter(
    (row) =>
      isWithin(row.step, query.stepMin, query.stepMax) &&
      isWithin(row.reward, query.rewardMin, query.rewardMax) &&
      isWithin(row.numTokens, query.tokensMin, query.tokensMax) &&
      (query.end === undefined || row.end === query.end) &&
      (query.domain === undefined || row.domain === query.domain) &&
      (query.fate === undefined || row.fate === query.fate),
  );
  const sign = query.order === "up" ? 1 : -1;
  const key = (row: TrajectoryRow) => row[query.sort] ?? Number.NEGATIVE_INFINITY;
  // Sorting is stable: equal ones keep the order of their groups.
  const sorted = matching.sort((a, b) => (key(a) === key(b) ? 0 : sign * (key(a) < key(b) ? -1 : 1)));
  return {
    rows: sorted.slice(query.offset, query.offset + query.limit),
    numMatching: matching.length,
    numTotal: rows.length,
    ends: namesOf(rows, "end"),
    domains: namesOf(rows, "domain"),
  };
}

/**
 * The rows with their advantages. An advantage that was not recorded is the reward minus the mean over the group,
 * without trajectories that failed or are a baseline themselves.
 */
export function withAdvantages(rows: readonly TrajectoryRow[]): TrajectoryRow[] {
  const groups = new Map<string, { sum: number; count: number }>();
  const keyOf = ({ step, groupId }: TrajectoryRow) => `${step} ${groupId}`;
  for (const row of rows) {
    if (!isCompared(row)) continue;
    const group = groups.get(keyOf(row)) ?? { sum: 0, count: 0 };
    groups.set(keyOf(row), { sum: group.sum + row.reward, count: group.count + 1 });
  }
  return rows.map((row) => {
    const group = groups.get(keyOf(row));
    if (row.advantage !== null || !isCompared(row) || group === undefined) return row;
    return { ...row, advantage: row.reward - group.sum / group.count };
  });
}

function isCompared({ fate }: TrajectoryRow): boolean {
  return fate !== "failed" && fate !== "baseline";
}

function isWithin(value: number, min: number | undefined, max: number | undefined): boolean {
  return (min === undefined || value >= min) && (max === undefined || value <= max);
}

function namesOf(rows: readonly TrajectoryRow[], field: "end" | "domain"): readonly string[] {
  return [...new Set(rows.map((row) => row[field]))].sort();
}
