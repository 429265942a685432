/**
 * What stale and inexact samplers do to training, and which corrections hold.
 *
 * node --import tsx bench/off-policy.ts [--seeds 1,2,3,4,5] [--jobs 1] [--out folder]
 * node --import tsx bench/off-policy.ts --merge folder
 * The same small task with every arm, every run a process with one thread: tokens are sampled one publication of four steps
 * ahead, and the engine's weights differ from the trainer's by noise, as those of a quantized engine do. `--jobs` runs go at
 * the same time. `--out` keeps the file of each run; on a machine with more cores, packed with scripts/bundle.mjs, that folder is
 * what to bring home, and `--merge` makes the table, bench/results/off-policy.json and docs/images/off-policy.svg of it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { ARMS, jobsOf, NOISES, type OffPolicyRun } from "./off-policy-plan.ts";
import { printTable, writeResult } from "./report.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3,4,5" },
    jobs: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
});
if (values.merge !== undefined) report(readRuns(values.merge));
else {
  const folder = resolve(values.out ?? mkdtempSync(join(tmpdir(), "reroll-off-policy-")));
  await runAll(folder);
  if (values.out === undefined) report(readRuns(folder));
}

async function runAll(folder: string): Promise<void> {
  const waiting = [...jobsOf(values.seeds.split(",").map(Number))];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      await runChild([next.arm, String(next.noise), String(next.seed), "--out", folder]);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
}

async function runChild(words: readonly string[]): Promise<void> {
  const module = fileURLToPath(new URL("off-policy-arm", import.meta.url));
  const file = module + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const child = spawn(process.execPath, [...process.execArgv, file, ...words], { stdio: "inherit" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`off-policy-arm ${words.join(" ")} ended with exit code ${code}.`);
}

function readRuns(folder: string): OffPolicyRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const runs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as OffPolicyRun);
  const order = Object.keys(ARMS);
  return runs.sort((a, b) => order.indexOf(a.arm) - order.indexOf(b.arm) || a.noise - b.noise || a.seed - b.seed);
}

function report(runs: readonly OffPolicyRun[]): void {
  const arms = Object.keys(ARMS).map((arm) => ({ arm, own: runs.filter((run) => run.arm === arm) }));
  const cells = arms.flatMap(({ arm, own }) =>
    NOISES.map((noise) => ({ arm, noise, same: own.filter((run) => run.noise === noise) })),
  );
  printTable(
    "Reward of the trainer's weights; the end is the mean of the last three evaluations; mean over seeds (lowest to highest)",
    ["arm", "noise", "seeds", "a third in", "at the end", "gap to sampler", "clipped", "kept", "seconds"],
    cells
      .filter(({ same }) => same.length > 0)
      .map(({ arm, noise, same }) => [
        ...[arm, String(noise), String(same.length)],
        ...[rangeOf(same.map(thirdOf)), rangeOf(same.map(endOf))],
        ...(["samplerGap", "clipShare", "keptShare", "seconds"] as const).map((key) => meanText(same, key)),
      ]),
  );
  const file = new URL("../docs/images/off-policy.svg", import.meta.url);
  writeFileSync(file, curveFigure(figureOf(arms)));
  const latest = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  // The machine is the one that the runs were made on, which need not be this one.
  writeResult("off-policy", { date: latest.date, machine: latest.machine, runs: runs.map(withoutPlace) });
}

/** The curves at the largest noise, and where the arms end at every noise. */
function figureOf(arms: readonly { readonly arm: string; readonly own: readonly OffPolicyRun[] }[]) {
  const noisiest = NOISES.at(-1)!;
  const overSteps = arms.map(({ arm, own }): Curve => {
    const shown = own.filter(({ noise }) => noise === noisiest || own.every((run) => run.noise === 0));
    const xs = shown[0]?.points.map(({ x }) => x) ?? [];
    return { name: arm, points: xs.map((x, i) => ({ x, ...spreadOf(shown.map((run) => run.points[i]!.y)) })) };
  });
  const overNoise = arms.map(({ arm, own }): Curve => {
    const xs = NOISES.filter((noise) => own.some((run) => run.noise === noise));
    const points = xs.map((x) => ({ x, ...spreadOf(own.filter(({ noise }) => noise === x).map(endOf)) }));
    return { name: arm, points };
  });
  return {
    title: "Reward with tokens that are 4 to 7 steps old, from inexact weights",
    panels: [
      { title: `noise ${noisiest}, step by step`, x: "step", curves: overSteps },
      { title: "at the end, by noise", x: "noise on the engine's weights", curves: overNoise },
    ],
  };
}

function thirdOf({ points }: OffPolicyRun): number {
  return points[Math.floor(points.length / 3)]!.y;
}

function endOf({ points }: OffPolicyRun): number {
  return meanOf(points.slice(-3).map(({ y }) => y));
}

function spreadOf(numbers: readonly number[]) {
  return { y: meanOf(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

function rangeOf(numbers: readonly number[]): string {
  const { y, low, high } = spreadOf(numbers);
  return `${y.toFixed(2)} (${low.toFixed(2)}-${high.toFixed(2)})`;
}

function meanText(runs: readonly OffPolicyRun[], key: "samplerGap" | "clipShare" | "keptShare" | "seconds"): string {
  const known = runs.flatMap((run) => run[key] ?? []);
  return known.length === 0 ? "-" : meanOf(known).toFixed(2);
}

function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function withoutPlace({ machine: _, date: __, ...run }: OffPolicyRun) {
  return run;
}
