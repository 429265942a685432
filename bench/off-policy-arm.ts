/**
 * One arm of the off-policy comparison with one noise and one seed, in one thread.
 *
 * node --import tsx bench/off-policy-arm.ts "<arm>" <noise> <seed> --out <folder>
 * Writes <folder>/<arm>-<noise>-<seed>.json.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { setNumThreads } from "../src/torch/memory.ts";
import { ARMS, type OffPolicyRun, settingsOf } from "./off-policy-plan.ts";
import { runOffPolicy } from "./off-policy-run.ts";
import { describeMachine } from "./report.ts";

const { values, positionals } = parseArgs({ options: { out: { type: "string" } }, allowPositionals: true });
const [arm = "", noise = Number.NaN, seed = Number.NaN] = [positionals[0], ...positionals.slice(1).map(Number)];
const algorithm = ARMS[arm];
if (algorithm === undefined || Number.isNaN(noise) || !Number.isInteger(seed) || values.out === undefined) {
  console.error(`Usage: off-policy-arm <arm> <noise> <seed> --out <folder>. Arms: ${Object.keys(ARMS).join("; ")}.`);
  process.exit(2);
}
setNumThreads(1);
const settings = settingsOf({ arm, noise, seed });
const startedMs = performance.now();
const { points, metrics } = await runOffPolicy(algorithm, settings, seed);
const meanOf = (key: string) => metrics.reduce((sum, step) => sum + (step[key] ?? Number.NaN), 0) / metrics.length;
const gap = meanOf("train/sampler_gap");
const run: OffPolicyRun = {
  ...{ arm, noise, seed, settings, points },
  samplerGap: Number.isNaN(gap) ? null : gap,
  ...{ clipShare: meanOf("policy/clip_fraction"), keptShare: meanOf("score/kept_fraction") },
  seconds: (performance.now() - startedMs) / 1000,
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${arm.replace(/\W+/g, "-")}-${noise}-${seed}.json`), `${JSON.stringify(run)}\n`);
console.log(`${arm}, noise ${noise}, seed ${seed}: ${points.map(({ y }) => y.toFixed(2)).join(" ")}`);
