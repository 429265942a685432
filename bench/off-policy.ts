/**
 * What stale and inexact samplers do to training, and which corrections hold.
 *
 * node --import tsx bench/off-policy.ts [--seeds 1,2,3]
 * The same small task with every variant: tokens are sampled one publication of four steps ahead, and the engine's weights differ from
 * the trainer's by noise, as those of a quantised engine do. Writes the table, the curves, and docs/images/off-policy.svg.
 */
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { RecipeChoice } from "../src/algorithms/recipes/table.ts";
import { setNumThreads } from "../src/torch/memory.ts";
import { type Curve, curveFigure } from "./curve-figure.ts";
import { type OffPolicySettings, runOffPolicy } from "./off-policy-run.ts";
import { printTable, writeResult } from "./report.ts";

const settings: OffPolicySettings = {
  task: { numDigits: 2, base: 8 },
  steps: 48,
  groupsPerStep: 32,
  groupSize: 8,
  minibatch: 64,
  lr: 1e-3,
  syncInterval: 4,
  maxStaleness: 1,
  noise: 0.1,
  evaluationPrompts: 128,
  stepsPerEvaluation: 4,
};
const onPolicy = { ...settings, syncInterval: 1, maxStaleness: 0, noise: 0 };

const plain = { type: "grpo", reduction: { type: "token-mean" }, dualClip: null } as const;
const tokenWeights = { level: "token", threshold: 2 } as const;
const variants: readonly { readonly name: string; readonly algorithm: RecipeChoice; readonly isFresh?: true }[] = [
  { name: "on-policy", algorithm: plain, isFresh: true },
  { name: "naive PPO (bypass)", algorithm: { ...plain, bypass: {} } },
  { name: "anchor, uncorrected", algorithm: plain },
  { name: "decoupled PPO", algorithm: { type: "decoupled-ppo" } },
  { name: "token weights", algorithm: { ...plain, correction: { importance: tokenWeights } } },
  {
    name: "sequence weights",
    algorithm: { ...plain, correction: { importance: { level: "sequence", threshold: 4 } } },
  },
  {
    name: "sequence rejection",
    algorithm: {
      ...plain,
      correction: { importance: tokenWeights, rejections: { token_k1: "0.25_4" }, scope: "sequence" },
    },
  },
];

interface Run extends Curve {
  readonly seed: number;
  /** Means over all steps. */
  readonly samplerGap: number | null;
  readonly clipShare: number;
  readonly keptShare: number;
  readonly seconds: number;
}

const { values } = parseArgs({ options: { seeds: { type: "string", default: "1,2,3" } } });
setNumThreads(2);
const runs: Run[] = [];
for (const seed of values.seeds.split(",").map(Number)) {
  for (const { name, algorithm, isFresh } of variants) {
    const startedMs = performance.now();
    const { points, metrics } = await runOffPolicy(algorithm, isFresh ? onPolicy : settings, seed);
    const mean = (key: string) => average(metrics.map((step) => step[key] ?? Number.NaN));
    const gap = mean("train/sampler_gap");
    runs.push({
      ...{ name, seed, points, samplerGap: Number.isNaN(gap) ? null : gap },
      ...{ clipShare: mean("policy/clip_fraction"), keptShare: mean("score/kept_fraction") },
      seconds: (performance.now() - startedMs) / 1000,
    });
    console.log(`${name}, seed ${seed}: ${points.map(({ y }) => y.toFixed(2)).join(" ")}`);
  }
}
report();

function report(): void {
  const summary = variants.map(({ name }) => {
    const own = runs.filter((run) => run.name === name);
    const points = own[0]!.points.map(({ x }, i) => ({ x, y: average(own.map((run) => run.points[i]!.y)) }));
    const finals = own.map((run) => average(run.points.slice(-4).map(({ y }) => y)));
    const over = (pick: (run: Run) => number | null) => average(own.map((run) => pick(run) ?? Number.NaN));
    return { name, points, finals, over };
  });
  printTable(
    `Reward of the trainer's weights; the end is the mean of the last four evaluations; mean over seeds (lowest to highest)`,
    ["variant", "a third in", "at the end", "gap to sampler", "clipped", "kept", "seconds"],
    summary.map(({ name, points, finals, over }) => [
      name,
      points[Math.floor(points.length / 3)]!.y.toFixed(3),
      `${average(finals).toFixed(3)} (${Math.min(...finals).toFixed(3)}-${Math.max(...finals).toFixed(3)})`,
      gapOf(over(({ samplerGap }) => samplerGap)),
      over(({ clipShare }) => clipShare).toFixed(2),
      over(({ keptShare }) => keptShare).toFixed(2),
      over(({ seconds }) => seconds).toFixed(1),
    ]),
  );
  writeFileSync(
    new URL("../docs/images/off-policy.svg", import.meta.url),
    curveFigure(summary, { title: "Tokens 4 to 7 steps old, from inexact weights", x: "step", y: "reward" }),
  );
  writeResult("off-policy", { settings, runs });
}

/** Without an anchor nothing is recomputed, and the gap is not known. */
function gapOf(gap: number): string {
  return Number.isNaN(gap) ? "-" : gap.toFixed(2);
}

function average(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}
