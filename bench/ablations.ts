/**
 * GRPO, DAPO, RLOO, GSPO, PPO and GiGPO on the same task with the same budget: the lakes of the quickstart, 100 steps of 512 episodes.
 *
 * node --import tsx bench/ablations.ts [--seeds 1,2,3] [--jobs 1] [--out folder]
 * node --import tsx bench/ablations.ts --merge folder
 * Every run is a process with one thread, `--jobs` at a time. `--merge` makes the table, bench/results/ablations.json and
 * docs/images/ablations.svg of the folder that `--out` wrote, on this machine or on another.
 */
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type AblationRun, ALGORITHMS } from "./ablations-plan.ts";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { printTable, writeResult } from "./report.ts";
import { runJobs } from "./run-jobs.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    jobs: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
});
const folder = resolve(values.merge ?? values.out ?? mkdtempSync(join(tmpdir(), "reroll-ablations-")));
if (values.merge === undefined) {
  const seeds = values.seeds.split(",");
  const words = seeds.flatMap((seed) => Object.keys(ALGORITHMS).map((name) => [name, seed, "--out", folder]));
  await runJobs({ script: "ablations-arm", words, numAtOnce: Number(values.jobs) });
}
if (values.merge !== undefined || values.out === undefined) report(readRuns());

function readRuns(): AblationRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  return files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as AblationRun);
}

function report(runs: readonly AblationRun[]): void {
  const arms = Object.keys(ALGORITHMS)
    .map((name) => ({
      name,
      own: runs.filter(({ algorithm }) => algorithm === name).toSorted((a, b) => a.seed - b.seed),
    }))
    .filter(({ own }) => own.length > 0);
  printTable(
    "Success on unseen maps, greedy: mean over seeds (lowest to highest)",
    ["algorithm", "seeds", "start", "step 40", "end", "seconds"],
    arms.map(({ name, own }) => [
      ...[name, String(own.length)],
      ...[0, 0.4, 1].map((share) =>
        rangeOf(own.map(({ points }) => points[Math.floor(share * (points.length - 1))]!.y)),
      ),
      meanOf(own.map(({ seconds }) => seconds)).toFixed(0),
    ]),
  );
  const curves = arms.map(({ name, own }): Curve => {
    const xs = own[0]?.points.map(({ x }) => x) ?? [];
    return { name, points: xs.map((x, i) => ({ x, ...spreadOf(own.map(({ points }) => points[i]!.y)) })) };
  });
  const panel = { title: "share of unseen maps crossed, mean and range of seeds", x: "training step", curves };
  const title = "The same task and budget with several algorithms";
  writeFileSync(new URL("../docs/images/ablations.svg", import.meta.url), curveFigure({ title, panels: [panel] }));
  // The machine is the one that the runs were made on, which need not be this one.
  const { date, machine } = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  const withoutPlace = ({ machine: _, date: __, ...run }: AblationRun) => run;
  writeResult("ablations", { date, machine, runs: arms.flatMap(({ own }) => own.map(withoutPlace)) });
}

function spreadOf(numbers: readonly number[]) {
  return { y: meanOf(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

function rangeOf(numbers: readonly number[]): string {
  const { y, low, high } = spreadOf(numbers);
  return `${y.toFixed(3)} (${low.toFixed(3)}-${high.toFixed(3)})`;
}

function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
