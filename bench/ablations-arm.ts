/**
 * One algorithm with one seed, on the lakes of the quickstart, in one thread.
 *
 * node --import tsx bench/ablations-arm.ts <algorithm> <seed> --out <folder>
 * Writes <folder>/<algorithm>-<seed>.json.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { resolveRun } from "../src/run/resolve-run.ts";
import { trainRun } from "../src/run/train-run.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import { type AblationRun, ALGORITHMS, ablationOf } from "./ablations-plan.ts";
import { describeMachine } from "./report.ts";

const { values, positionals } = parseArgs({ options: { out: { type: "string" } }, allowPositionals: true });
const [algorithm = "", seed = ""] = positionals;
if (!(algorithm in ALGORITHMS) || !/^\d+$/.test(seed) || values.out === undefined) {
  console.error(`Usage: ablations-arm <algorithm> <seed> --out <folder>. ${Object.keys(ALGORITHMS).join(", ")}.`);
  process.exit(2);
}
const { config } = resolveRun(ablationOf(algorithm), [
  { path: ["seed"], value: Number(seed) },
  { path: ["device"], value: "cpu" },
  { path: ["engine", "threads"], value: 1 },
  { path: ["training", "threads"], value: 1 },
]);
const folder = mkdtempSync(join(tmpdir(), "reroll-ablations-"));
const clock = () => performance.now();
const startedMs = clock();
const points: { x: number; y: number }[] = [];
await trainRun(config, {
  ...{ folder, clock, signal: new AbortController().signal, isResumed: false },
  tracker: {
    ...silentTracker,
    log: (step, kind, metrics) => {
      if (kind !== "validation") return;
      points.push({ x: step, y: metrics["validation/env/success"]! });
      console.log(algorithm, seed, points.at(-1));
    },
  },
});
rmSync(folder, { recursive: true });
const seconds = (clock() - startedMs) / 1000;
const run: AblationRun = {
  ...{ algorithm, seed: Number(seed), points, seconds },
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${algorithm}-${seed}.json`), `${JSON.stringify(run)}\n`);
