/**
 * One recipe with one seed, from the first step to the last: the curve of its validation, and what random play gets there.
 *
 * node --import tsx bench/learning-run.ts <recipe> <seed> --out <folder> [--threads 2]
 * Writes <folder>/<recipe>-<seed>.json. Validation tasks are the same for all seeds and never trained on. Seconds count from the end of
 * set-up, and hold for the machine and the load that are written beside them.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { run as arithmetic } from "../examples/recipes/arithmetic.ts";
import { run as cartPoleText } from "../examples/recipes/cart-pole-text.ts";
import { run as frozenLake } from "../examples/recipes/frozen-lake.ts";
import { run as sokoban } from "../examples/recipes/sokoban.ts";
import { buildSource } from "../src/data/build-source.ts";
import type { DataChoice } from "../src/data/data-options.ts";
import { playEpisode, randomAgent } from "../src/envs/play-episode.ts";
import { deriveSeed } from "../src/random/random.ts";
import { buildWorld, defaultData } from "../src/run/build-rollout.ts";
import { resolveRun } from "../src/run/resolve-run.ts";
import type { RunConfig } from "../src/run/run-config.ts";
import { trainRun } from "../src/run/train-run.ts";
import { silentTracker } from "../src/tracking/run-tracker.ts";
import type { LearningPoint, LearningRun } from "./learning-summary.ts";
import { describeMachine } from "./report.ts";

const recipes = { arithmetic, "cart-pole-text": cartPoleText, "frozen-lake": frozenLake, sokoban };
const clock = () => performance.now();

const { values, positionals } = parseArgs({
  options: { out: { type: "string" }, threads: { type: "string", default: String(availableParallelism()) } },
  allowPositionals: true,
});
const [recipe = "", seed = ""] = positionals;
if (!(recipe in recipes) || !/^\d+$/.test(seed) || values.out === undefined) {
  console.error(`Usage: learning-run <recipe> <seed> --out <folder>. Recipes: ${Object.keys(recipes).join(", ")}.`);
  process.exit(2);
}
const threads = Number(values.threads);
const { config } = resolveRun(recipes[recipe as keyof typeof recipes], [
  { path: ["seed"], value: Number(seed) },
  { path: ["device"], value: "cpu" },
  { path: ["engine", "threads"], value: threads },
  { path: ["training", "threads"], value: threads },
]);
const metric = config.validation?.metric ?? "reward/mean";
const result: LearningRun = {
  ...{ recipe, seed: Number(seed), metric, threads },
  random: await playAtRandom(config),
  curve: await learn(config),
  ...{ machine: describeMachine(), date: new Date().toISOString() },
};
mkdirSync(values.out, { recursive: true });
writeFileSync(join(values.out, `${recipe}-${seed}.json`), `${JSON.stringify(result, null, 2)}\n`);

async function learn(config: RunConfig): Promise<LearningPoint[]> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-learning-"));
  const curve: LearningPoint[] = [];
  let startedMs: number | undefined;
  try {
    await trainRun(config, {
      ...{ folder, clock, signal: new AbortController().signal, isResumed: false },
      tracker: {
        ...silentTracker,
        log: (step, kind, metrics) => {
          startedMs ??= clock();
          if (kind !== "validation") return;
          const point = pointOf((name) => metrics[`validation/${name}`]);
          curve.push({ step, seconds: round((clock() - startedMs) / 1000, 1), ...point });
          console.log(`${recipe} seed ${seed}`, curve.at(-1));
        },
      },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return curve;
}

/** The same tasks, played by chance. */
async function playAtRandom(config: RunConfig): Promise<Omit<LearningPoint, "step" | "seconds">> {
  const world = await buildWorld(config, clock);
  const choice = (config.validation?.data ?? defaultData(config, "validation")) as DataChoice;
  const { source } = await buildSource(choice, { seed: config.seed, envs: world.envs }, "validation.data");
  const prompts = await source.next(config.validation?.prompts ?? 0);
  const games = await Promise.all(
    prompts.map(async (prompt, i) => {
      const episodeSeed = deriveSeed(config.seed, "random", i);
      return playEpisode(await world.makeEnv(prompt, episodeSeed), randomAgent(episodeSeed));
    }),
  );
  await world.close();
  return pointOf((name) => {
    if (name === "reward/mean") return mean(games.map(({ totalReward }) => totalReward));
    const told = games.flatMap(({ metrics }) => metrics[name.replace("env/", "")] ?? []);
    return told.length === 0 ? undefined : mean(told);
  });
}

function pointOf(read: (name: string) => number | undefined) {
  const effective = read("env/effective_action");
  return {
    value: round(read(metric) ?? Number.NaN, 4),
    ...(effective !== undefined && { effectiveActions: round(effective, 4) }),
  };
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
