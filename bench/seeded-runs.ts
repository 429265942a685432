/**
 * Benchmarks that are many runs: every run is a process with one thread and leaves one file, and a table is made of the files.
 *
 * Flags: `--seeds 1,2,3`, `--jobs 1` runs at a time, `--out folder` keeps the files and makes no table, `--merge folder` makes the table
 * of files that `--out` kept, on this machine or on another.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Curve } from "./curve-figure.ts";
import { type Machine, writeResult } from "./report.ts";

/** One run, as its file holds it. */
export interface SeededRun {
  readonly seed: number;
  /** What was reached, step by step. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
  readonly seconds: number;
  readonly machine: Machine;
  readonly date: string;
}

interface SeededRuns {
  /** The benchmark; `<name>-arm` beside it is the script of one run. */
  readonly name: string;
  readonly defaultSeeds: string;
  /** The arguments of each run of a seed. */
  readonly wordsOf: (seed: string) => readonly (readonly string[])[];
}

/** Makes the runs, or reads those of `--merge`, in the order of their seeds. Null where only files were asked for. */
export async function seededRuns<Run extends SeededRun>(options: SeededRuns): Promise<readonly Run[] | null> {
  const { name, defaultSeeds, wordsOf } = options;
  const { values } = parseArgs({
    options: {
      seeds: { type: "string", default: defaultSeeds },
      jobs: { type: "string", default: "1" },
      out: { type: "string" },
      merge: { type: "string" },
    },
  });
  const folder = resolve(values.merge ?? values.out ?? mkdtempSync(join(tmpdir(), `reroll-${name}-`)));
  if (values.merge === undefined) {
    const words = values.seeds.split(",").flatMap(wordsOf);
    await runAll(
      `${name}-arm`,
      words.map((own) => [...own, "--out", folder]),
      Number(values.jobs),
    );
  }
  return values.out === undefined ? readRuns<Run>(folder) : null;
}

/** Waits for all of them; the first that fails ends the others' turn. */
async function runAll(script: string, words: readonly (readonly string[])[], numAtOnce: number): Promise<void> {
  // Bundled it is JavaScript.
  const file = fileURLToPath(new URL(script, import.meta.url)) + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const waiting = [...words];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const child = spawn(process.execPath, [...process.execArgv, file, ...next], { stdio: "inherit" });
      const [code] = await once(child, "exit");
      if (code !== 0) throw new Error(`${script} ${next.join(" ")} ended with exit code ${code}.`);
    }
  };
  await Promise.all(Array.from({ length: numAtOnce }, work));
}

function readRuns<Run extends SeededRun>(folder: string): Run[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const runs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as Run);
  return runs.sort((a, b) => a.seed - b.seed);
}

/** Writes bench/results/<name>.json. The machine is the one that the runs were made on, which need not be this one. */
export function writeRuns(name: string, runs: readonly SeededRun[]): void {
  const { date, machine } = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  writeResult(name, { date, machine, runs: runs.map(({ machine: _, date: __, ...run }) => run) });
}

/** The mean of runs step by step, with the lowest and the highest. Runs that were cut short count as far as they went. */
export function curveOf(name: string, runs: readonly SeededRun[]): Curve {
  const xs = longestOf(runs).map(({ x }) => x);
  const values = (i: number) => runs.flatMap(({ points }) => points[i]?.y ?? []);
  return { name, points: xs.map((x, i) => ({ x, ...spreadOf(values(i)) })) };
}

function longestOf(runs: readonly SeededRun[]): SeededRun["points"] {
  return runs.map(({ points }) => points).reduce((a, b) => (b.length > a.length ? b : a), []);
}

/** What a run had after a third of its evaluations. */
export function thirdOf({ points }: SeededRun): number {
  return points[Math.floor(points.length / 3)]!.y;
}

/** The mean of the last three evaluations. */
export function endOf({ points }: SeededRun): number {
  return meanOf(points.slice(-3).map(({ y }) => y));
}

export function spreadOf(numbers: readonly number[]) {
  return { y: meanOf(numbers), low: Math.min(...numbers), high: Math.max(...numbers) };
}

/** "0.71 (0.68-0.75)": the mean, the lowest and the highest. */
export function rangeOf(numbers: readonly number[], digits = 2): string {
  const { y, low, high } = spreadOf(numbers);
  return `${y.toFixed(digits)} (${low.toFixed(digits)}-${high.toFixed(digits)})`;
}

export function meanOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
