/**
 * How well and how fast run files learn: each with several seeds, from the first step to the last.
 *
 * node --import tsx bench/learning.ts [--seeds 1,2,3,4,5] [recipe ...]
 * Validation has seeds that training never draws: other maps for frozen-lake, but arithmetic has 10,000 sums in all, so most
 * of its sums were met before. What is in bench/results/learning.json already is not run again, so that
 * seeds can be added later; delete a recipe's runs there after changing it. Seconds count from the end of set-up, and hold for
 * the load that is written beside them.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { prepareRun } from "../src/run/prepare-run.ts";
import { silentRecorder } from "../src/run/run-recorder.ts";
import { trainRun } from "../src/run/train-run.ts";
import { printTable, writeResult } from "./report.ts";

interface Point {
  readonly step: number;
  /** Warm start, training and validation so far. */
  readonly seconds: number;
  readonly value: number;
  readonly effectiveActions?: number;
}

interface LearningRun {
  readonly recipe: string;
  readonly seed: number;
  readonly metric: string;
  readonly curve: readonly Point[];
  /** Runnable tasks over the last minute: at the end of each validation, the mean. */
  readonly loadAverage: number;
}

const defaultRecipes = ["frozen-lake", "arithmetic"];
const results = new URL("results/learning.json", import.meta.url);

const { values, positionals } = parseArgs({
  options: { seeds: { type: "string", default: "1,2,3,4,5" } },
  allowPositionals: true,
});
const runs = existsSync(results) ? readRuns(readFileSync(results, "utf8")) : [];
for (const seed of values.seeds.split(",").map(Number)) {
  for (const recipe of positionals.length > 0 ? positionals : defaultRecipes) {
    if (runs.some((run) => run.recipe === recipe && run.seed === seed)) continue;
    runs.push(await learn(recipe, seed));
    writeResult("learning", { runs, summary: summarise(runs) });
  }
}
printTable(
  "Success in validation, mean over seeds (lowest to highest)",
  ["recipe", "seeds", "at the start", "at the end", "best", "seconds"],
  summarise(runs).map(({ recipe, seeds, first, last, best, seconds }) => [
    recipe,
    String(seeds.length),
    range(first, 3),
    range(last, 3),
    range(best, 3),
    range(seconds, 0),
  ]),
);

async function learn(recipe: string, seed: number): Promise<LearningRun> {
  const file = fileURLToPath(new URL(`../examples/recipes/${recipe}.ts`, import.meta.url));
  const { config } = await prepareRun(file, [`seed=${seed}`]);
  const metric = config.validation?.metric ?? "reward/mean";
  const folder = mkdtempSync(join(tmpdir(), "reroll-learning-"));
  const curve: Point[] = [];
  const loads: number[] = [];
  let startedMs: number | undefined;
  try {
    await trainRun(config, {
      folder,
      clock: () => performance.now(),
      signal: new AbortController().signal,
      isResumed: false,
      recorder: {
        ...silentRecorder,
        log: (step, kind, metrics) => {
          startedMs ??= performance.now();
          if (kind !== "validation") return;
          const effective = metrics["validation/env/effective_action"];
          const point = {
            step,
            seconds: round((performance.now() - startedMs) / 1000, 1),
            value: round(metrics[`validation/${metric}`] ?? Number.NaN, 4),
            ...(effective !== undefined && { effectiveActions: round(effective, 4) }),
          };
          curve.push(point);
          loads.push(loadavg()[0]!);
          console.log(`${recipe} seed ${seed} step ${step} ${point.seconds} s ${metric} ${point.value}`);
        },
      },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return { recipe, seed, metric, curve, loadAverage: round(mean(loads), 1) };
}

function summarise(all: readonly LearningRun[]) {
  return [...new Set(all.map(({ recipe }) => recipe))].map((recipe) => {
    const own = all.filter((run) => run.recipe === recipe);
    const over = (pick: (run: LearningRun) => number) => spreadOf(own.map(pick));
    return {
      recipe,
      seeds: own.map(({ seed }) => seed),
      first: over(({ curve }) => curve[0]!.value),
      last: over(({ curve }) => curve.at(-1)!.value),
      best: over(({ curve }) => Math.max(...curve.map(({ value }) => value))),
      seconds: over(({ curve }) => curve.at(-1)!.seconds),
    };
  });
}

function spreadOf(numbers: readonly number[]) {
  return { mean: round(mean(numbers), 4), lowest: Math.min(...numbers), highest: Math.max(...numbers) };
}

function range({ mean: middle, lowest, highest }: ReturnType<typeof spreadOf>, digits: number): string {
  return `${middle.toFixed(digits)} (${lowest.toFixed(digits)}-${highest.toFixed(digits)})`;
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}

function readRuns(text: string): LearningRun[] {
  return (JSON.parse(text) as { runs: LearningRun[] }).runs;
}
