/**
 * Reward by staleness: weights published every 1, 4 and 16 steps, naive and corrected, with and without prioritized replay.
 *
 * node --import tsx bench/staleness.ts [--seeds 1,2,3] [--jobs 1] [--out folder]
 * node --import tsx bench/staleness.ts --merge folder
 * The task of `npm run bench -- off-policy`, without noise. Every run is a process with one thread, `--jobs` at a time. `--merge` makes
 * the table, bench/results/staleness.json and docs/images/staleness.svg of the folder that `--out` wrote, on this machine or on another.
 */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { printTable, writeResult } from "./report.ts";
import { runJobs } from "./run-jobs.ts";
import { INTERVALS, STALE_ARMS, type StaleRun } from "./staleness-plan.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    jobs: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
});
const folder = resolve(values.merge ?? values.out ?? mkdtempSync(join(tmpdir(), "reroll-staleness-")));
if (values.merge === undefined) {
  const words = values.seeds
    .split(",")
    .flatMap((seed) =>
      INTERVALS.flatMap((interval) =>
        Object.keys(STALE_ARMS).map((arm) => [arm, String(interval), seed, "--out", folder]),
      ),
    );
  await runJobs({ script: "staleness-arm", words, numAtOnce: Number(values.jobs) });
}
if (values.merge !== undefined || values.out === undefined) report(readRuns());

function readRuns(): StaleRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as StaleRun);
}

function report(runs: readonly StaleRun[]): void {
  const cells = Object.keys(STALE_ARMS).flatMap((arm) =>
    INTERVALS.map((interval) => ({
      ...{ arm, interval },
      own: runs.filter((run) => run.arm === arm && run.syncInterval === interval).toSorted((a, b) => a.seed - b.seed),
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
  // The machine is the one that the runs were made on, which need not be this one.
  const { date, machine } = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  const withoutPlace = ({ machine: _, date: __, ...run }: StaleRun) => run;
  writeResult("staleness", { date, machine, runs: cells.flatMap(({ own }) => own.map(withoutPlace)) });
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
  const overSteps = cells
    .filter(({ interval }) => interval === longest)
    .map(({ arm, own }): Curve => {
      const xs = own[0]?.points.map(({ x }) => x) ?? [];
      return { name: arm, points: xs.map((x, i) => ({ x, ...spreadOf(own.map(({ points }) => points[i]!.y)) })) };
    });
  return {
    title: "Reward by the age of the sampler's weights",
    panels: [
      { title: "at the end, by interval", x: "steps between publications", curves: byInterval },
      { title: `interval ${longest}, step by step`, x: "step", curves: overSteps },
    ],
  };
}

function thirdOf({ points }: StaleRun): number {
  return points[Math.floor(points.length / 3)]!.y;
}

function endOf({ points }: StaleRun): number {
  return meanOf(points.slice(-3).map(({ y }) => y));
}

function spreadOf(numbers: readonly number[]) {
  return { y: meanOf(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

function rangeOf(numbers: readonly number[]): string {
  const { y, low, high } = spreadOf(numbers);
  return `${y.toFixed(2)} (${low.toFixed(2)}-${high.toFixed(2)})`;
}

function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
