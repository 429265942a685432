/**
 * Whether a student that sees nothing privileged comes close to its teacher on physics that neither has seen, and what it is
 * worth to adapt: every arm with several seeds, every run a process of its own.
 *
 * node --import tsx bench/adaptation.ts [--seeds 1,2,3] [--jobs 1] [--out folder] [--scale 1] [arm ...]
 * node --import tsx bench/adaptation.ts --merge folder
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
import { type AdaptationRun, ARMS, EVALUATIONS, type Returns } from "./adaptation-plan.ts";
import { printTable, writeResult } from "./report.ts";

const { values, positionals } = parseArgs({
  options: {
    seeds: { type: "string", default: "1,2,3" },
    jobs: { type: "string", default: "1" },
    scale: { type: "string", default: "1" },
    out: { type: "string" },
    merge: { type: "string" },
  },
  allowPositionals: true,
});
const arms = positionals.length > 0 ? positionals : Object.keys(ARMS);
const folder = values.merge ?? resolve(values.out ?? mkdtempSync(join(tmpdir(), "reroll-adaptation-")));
if (values.merge === undefined) await runAll();
report(readRuns());

/** Runs `--jobs` processes at a time, the arms of one seed before those of the next. */
async function runAll(): Promise<void> {
  const waiting = values.seeds.split(",").flatMap((seed) => arms.map((arm) => [arm, seed] as const));
  const work = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      await runChild([...next, "--out", folder, "--scale", values.scale]);
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, work));
}

async function runChild(words: readonly string[]): Promise<void> {
  const module = fileURLToPath(new URL("adaptation-arm", import.meta.url));
  const file = module + (import.meta.url.endsWith(".ts") ? ".ts" : ".js");
  const child = spawn(process.execPath, [...process.execArgv, file, ...words], { stdio: "inherit" });
  const [code] = await once(child, "exit");
  if (code !== 0) throw new Error(`adaptation-arm ${words.join(" ")} ended with exit code ${code}.`);
}

function readRuns(): AdaptationRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const runs = files.map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as AdaptationRun);
  const order = Object.keys(ARMS);
  return runs.sort((a, b) => order.indexOf(a.arm) - order.indexOf(b.arm) || a.seed - b.seed);
}

function report(runs: readonly AdaptationRun[]): void {
  const summary = summarize(runs);
  const names = Object.keys(EVALUATIONS) as (keyof Returns)[];
  printTable(
    "Mean return of 200 episodes with mean actions, over seeds (lowest to highest)",
    ["arm", "who", "seeds", ...names],
    summary.map(({ arm, stage, seeds, ...means }) => [
      ...[arm, stage, String(seeds.length)],
      ...names.map(
        (name) => `${means[name].mean.toFixed(1)} (${means[name].low.toFixed(1)}-${means[name].high.toFixed(1)})`,
      ),
    ]),
  );
  const parts = shareOfTeacher(runs);
  for (const { seed, ...shares } of parts) {
    console.log(`seed ${seed}: student / teacher ${names.map((name) => `${name} ${shares[name]}`).join(", ")}`);
  }
  const latest = runs.toSorted((a, b) => a.date.localeCompare(b.date)).at(-1)!;
  // The machine is the one that the runs were made on, which need not be this one.
  writeResult("adaptation", { date: latest.date, machine: latest.machine, summary, shareOfTeacher: parts, runs });
}

/** One entry per arm and stage, in the order of the arms. */
function summarize(runs: readonly AdaptationRun[]) {
  const cells = runs.flatMap(({ arm, seed, stages }) => stages.map((stage) => ({ arm, seed, ...stage })));
  const keys = [...new Set(cells.map(({ arm, stage }) => JSON.stringify([arm, stage])))];
  return keys.map((key) => {
    const [arm, stage] = JSON.parse(key) as [string, string];
    const own = cells.filter((cell) => cell.arm === arm && cell.stage === stage);
    const over = (name: keyof Returns) => spreadOf(own.map(({ returns }) => returns[name]));
    return {
      ...{ arm, stage, envSteps: own[0]!.envSteps, seeds: own.map(({ seed }) => seed) },
      ...{ training: over("training"), heldOut: over("heldOut"), heldOutTurn: over("heldOutTurn") },
    };
  });
}

/** The student's return at the end over its own teacher's, by seed. */
function shareOfTeacher(runs: readonly AdaptationRun[]) {
  return runs
    .filter(({ arm }) => arm === "adaptation")
    .map(({ seed, stages }) => {
      const of = (name: string) => stages.find(({ stage }) => stage === name)!.returns;
      const [teacher, student] = [of("teacher"), of("student after finetune")];
      const share = (name: keyof Returns) => Number((student[name] / teacher[name]).toFixed(3));
      return { seed, training: share("training"), heldOut: share("heldOut"), heldOutTurn: share("heldOutTurn") };
    });
}

function spreadOf(numbers: readonly number[]) {
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  return { mean: Number(mean.toFixed(2)), low: Math.min(...numbers), high: Math.max(...numbers) };
}
