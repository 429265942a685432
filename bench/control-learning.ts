/**
 * How well PPO learns control: each recipe with several seeds, every run a process of its own, beside published numbers.
 *
 * node --import tsx bench/control-learning.ts [--seeds 1,2,3] [--jobs 1] [--out folder] [recipe ...]
 * node --import tsx bench/control-learning.ts --merge folder
 * `--jobs` runs go at the same time, one core each. `--out` keeps the file of each run; on a machine with more cores, packed
 * with scripts/bundle.mjs, that folder is what to bring home, and `--merge` sums it up there.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type ControlLearningRun, controlBars, summarizeControl } from "./control-learning-summary.ts";
import { printTable, writeResult } from "./report.ts";

const { values, positionals } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    jobs: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
  allowPositionals: true,
});
const recipes = positionals.length > 0 ? positionals : Object.keys(controlBars);
const folder = values.merge ?? resolve(values.out ?? mkdtempSync(join(tmpdir(), "reroll-control-")));
if (values.merge === undefined) await runAll();
report(readRuns());

/** Runs `--jobs` processes at a time, the recipes of one seed before those of the next. */
async function runAll(): Promise<void> {
  const waiting = values.seeds.split(",").flatMap((seed) => recipes.map((recipe) => [recipe, seed] as const));
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      await runChild([...next, "--out", folder]);
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
}

async function runChild(words: readonly string[]): Promise<void> {
  const module = fileURLToPath(new URL("control-learning-run", import.meta.url));
  const file = module + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const child = spawn(process.execPath, [...process.execArgv, file, ...words], { stdio: "inherit" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`control-learning-run ${words.join(" ")} ended with exit code ${code}.`);
}

function readRuns(): ControlLearningRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const runs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as ControlLearningRun);
  return runs.sort((a, b) => a.recipe.localeCompare(b.recipe) || a.seed - b.seed);
}

function report(runs: readonly ControlLearningRun[]): void {
  const summary = summarizeControl(runs);
  printTable(
    "Mean return of the last 100 episodes, over seeds",
    ["recipe", "steps", "seeds", "mean", "deviation", "published", "bar", "seconds"],
    summary.map((one) => [
      one.recipe,
      String(one.envSteps),
      String(one.seeds.length),
      one.mean.toFixed(1),
      one.deviation.toFixed(1),
      one.published ?? "",
      `${one.bar ?? ""}${one.mean >= (one.bar ?? Number.NEGATIVE_INFINITY) ? "" : " MISSED"}`,
      String(one.seconds),
    ]),
  );
  const latest = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  // The machine is the one that the runs were made on, which need not be this one.
  writeResult("control-learning", { date: latest.date, machine: latest.machine, summary, runs });
}
