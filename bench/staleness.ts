/**
 * Reward by staleness: weights published every 1, 4 and 16 steps, naive and corrected, with and without prioritized replay.
 *
 * node --import tsx bench/staleness.ts [--seeds 1,2,3] [--jobs 1] [--out folder]
 * node --import tsx bench/staleness.ts --merge folder
 * The task of `npm run bench -- off-policy`, without noise. Makes the table, bench/results/staleness.json and docs/images/staleness.svg.
 */
import { writeFileSync } from "node:fs";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { printTable } from "./report.ts";
import { curveOf, endOf, meanOf, rangeOf, seededRuns, spreadOf, thirdOf, writeRuns } from "./seeded-runs.ts";
import { INTERVALS, STALE_ARMS, type StaleRun } from "./staleness-plan.ts";

const runs = await seededRuns<StaleRun>({
  name: "staleness",
  defaultSeeds: "1,2,3",
  wordsOf: (seed) =>
    INTERVALS.flatMap((interval) => Object.keys(STALE_ARMS).map((arm) => [arm, String(interval), seed])),
});
if (runs !== null) report(runs);

function report(runs: readonly StaleRun[]): void {
  const cells = Object.keys(STALE_ARMS).flatMap((arm) =>
    INTERVALS.map((interval) => ({
      ...{ arm, interval },
      own: runs.filter((run) => run.arm === arm && run.syncInterval === interval),
    })),
  );
  printTable(
    "Reward of the trainer's weights; the end is the mean of the last three evaluations; mean over seeds (lowest to highest)",
    ["arm", "interval", "seeds", "a third in", "at the end", "clipped", "seconds"],
    cells.map(({ arm, interval, own }) => [
      ...[arm, String(interval), String(own.length), rangeOf(own.map(thirdOf)), rangeOf(own.map(endOf))],
      ...[
        meanOf(own.map(({ clipShare }) => clipShare)).toFixed(2),
        meanOf(own.map(({ seconds }) => seconds)).toFixed(0),
      ],
    ]),
  );
  writeFileSync(new URL("../docs/images/staleness.svg", import.meta.url), curveFigure(figureOf(cells)));
  writeRuns(
    "staleness",
    cells.flatMap(({ own }) => own),
  );
}

interface Cell {
  readonly arm: string;
  readonly interval: number;
  readonly own: readonly StaleRun[];
}

/** Where the arms end by interval, and step by step with the longest one. */
function figureOf(cells: readonly Cell[]) {
  const longest = INTERVALS.at(-1)!;
  const byInterval = Object.keys(STALE_ARMS).map((arm): Curve => {
    const own = cells.filter((cell) => cell.arm === arm);
    return { name: arm, points: own.map(({ interval, own }) => ({ x: interval, ...spreadOf(own.map(endOf)) })) };
  });
  const overSteps = cells.filter(({ interval }) => interval === longest).map(({ arm, own }) => curveOf(arm, own));
  return {
    title: "Reward by the age of the sampler's weights",
    panels: [
      { title: "at the end, by interval", x: "steps between publications", curves: byInterval },
      { title: `interval ${longest}, step by step`, x: "step", curves: overSteps },
    ],
  };
}
