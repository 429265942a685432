/**
 * How well and how fast recipes learn: each with several seeds, every run a process of its own.
 *
 * node --import tsx bench/learning.ts [--seeds 1,2,3,4,5] [--jobs 1] [--out folder] [recipe ...]
 * node --import tsx bench/learning.ts --merge folder
 * `--jobs` runs go at the same time and share the cores. `--out` keeps the file of each run; on a machine with more cores,
 * packed with scripts/bundle.mjs, that folder is what to bring home, and `--merge` sums it up there.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type LearningRun, type Spread, summarizeLearning } from "./learning-summary.ts";
import { printTable, writeResult } from "./report.ts";

const { values, positionals } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3,4,5" },
    jobs: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
  allowPositionals: true,
});
const recipes = positionals.length > 0 ? positionals : ["sokoban", "frozen-lake", "arithmetic", "cart-pole-text"];
report(
  readRuns(values.merge ?? (await runAll(resolve(values.out ?? mkdtempSync(join(tmpdir(), "reroll-learning-")))))),
);

/** Runs `--jobs` processes at a time, the longest recipe first. */
async function runAll(folder: string): Promise<string> {
  const jobs = Number(values.jobs);
  const threads = Math.max(1, Math.floor(availableParallelism() / jobs));
  const seeds = values.seeds.split(",");
  const waiting = recipes.flatMap((recipe) => seeds.map((seed) => [recipe, seed] as const));
  const failed: string[] = [];
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const code = await runChild([...next, "--out", folder, "--threads", String(threads)]);
      if (code !== 0) failed.push(next.join(" "));
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  if (failed.length === 0) return folder;
  throw new Error(`These runs failed: ${failed.join(", ")}. The others are in ${folder}.`);
}

async function runChild(words: readonly string[]): Promise<number | null> {
  const module = fileURLToPath(new URL("learning-run", import.meta.url));
  const file = module + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const child = spawn(process.execPath, [...process.execArgv, file, ...words], { stdio: "inherit" });
  const [code] = await once(child, "exit");
  return code;
}

function readRuns(folder: string): LearningRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const runs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as LearningRun);
  return runs.sort((a, b) => a.recipe.localeCompare(b.recipe) || a.seed - b.seed);
}

function report(runs: readonly LearningRun[]): void {
  const summary = summarizeLearning(runs);
  printTable(
    "Validation, mean over seeds (lowest to highest)",
    ["recipe", "metric", "seeds", "random play", "warm start", "end", "effective moves", "seconds"],
    summary.map((one) => [
      one.recipe,
      one.metric,
      String(one.seeds.length),
      one.random.mean.toFixed(3),
      range(one.first, 3),
      range(one.last, 3),
      one.effectiveLast === undefined
        ? ""
        : `${one.effectiveRandom!.mean.toFixed(3)} to ${range(one.effectiveLast, 3)}`,
      range(one.seconds, 0),
    ]),
  );
  const latest = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  // The machine is the one that the runs were made on, which need not be this one.
  writeResult("learning", { date: latest.date, machine: latest.machine, summary, runs });
}

function range({ mean, lowest, highest }: Spread, digits: number): string {
  return `${mean.toFixed(digits)} (${lowest.toFixed(digits)}-${highest.toFixed(digits)})`;
}
