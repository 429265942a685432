/**
 * One arm of the comparison by staleness with one interval and one seed, in one thread.
 *
 * node --import tsx bench/staleness-arm.ts "<arm>" <interval> <seed> --out <folder>
 * Writes <folder>/<arm>-<interval>-<seed>.json.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { setNumThreads } from "../src/torch/memory.ts";
import { runOffPolicy } from "./off-policy-run.ts";
import { describeMachine } from "./report.ts";
import { STALE_ARMS, type StaleRun, staleSettings } from "./staleness-plan.ts";

const { values, positionals } = parseArgs({ options: { out: { type: "string" } }, allowPositionals: true });
const [arm = "", syncInterval = Number.NaN, seed = Number.NaN] = [positionals[0], ...positionals.slice(1).map(Number)];
const chosen = STALE_ARMS[arm];
if (chosen === undefined || !(syncInterval > 0) || !Number.isInteger(seed) || values.out === undefined) {
  console.error(
    `Usage: staleness-arm <arm> <interval> <seed> --out <folder>. Arms: ${Object.keys(STALE_ARMS).join("; ")}.`,
  );
  process.exit(2);
}
setNumThreads(1);
const settings = staleSettings(arm, syncInterval);
const startedMs = performance.now();
const { points, metrics } = await runOffPolicy(chosen.algorithm, settings, seed);
const meanOf = (key: string) => metrics.reduce((sum, step) => sum + (step[key] ?? Number.NaN), 0) / metrics.length;
const run: StaleRun = {
  ...{ arm, syncInterval, seed, settings, points },
  ...{ clipShare: meanOf("policy/clip_fraction"), keptShare: meanOf("score/kept_fraction") },
  seconds: (performance.now() - startedMs) / 1000,
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${arm.replace(/\W+/g, "-")}-${syncInterval}-${seed}.json`), `${JSON.stringify(run)}\n`);
console.log(`${arm}, interval ${syncInterval}, seed ${seed}: ${points.map(({ y }) => y.toFixed(2)).join(" ")}`);
