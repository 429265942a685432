/**
 * The curves of a recipe: run folders of several seeds in, a picture for the documentation and bench/results/<recipe>.json out.
 *
 * Usage: npm run bench -- run-curves word-problems "one NVIDIA H200" runs/seed-1 runs/seed-2 runs/seed-3
 * A .json file of earlier results in place of a folder adds its runs; alone it is drawn again.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { curveFigure } from "./curve-figure.ts";

/** What a recipe's picture shows: a metric in training and held out, or several metrics held out. */
interface Recipe {
  readonly title: string;
  readonly metric: string;
  /** By the names that the picture shows. */
  readonly domains?: Readonly<Record<string, string>>;
}

const success = "env/success";
const recipes: Readonly<Record<string, Recipe>> = {
  "word-problems": { metric: "reward/mean", title: "SmolLM2-135M-Instruct learns word problems" },
  "chat-frozen-lake": { metric: success, title: "SmolLM2-135M-Instruct learns to cross frozen lakes" },
  "chat-frozen-lake-slippery": { metric: success, title: "SmolLM2-135M-Instruct crosses slippery lakes" },
  "chat-sokoban": { metric: success, title: "SmolLM2-135M-Instruct learns Sokoban" },
  "chat-sokoban-letters": { metric: success, title: "SmolLM2-135M-Instruct learns Sokoban in letters" },
  "chat-sokoban-two-boxes": { metric: success, title: "SmolLM2-135M-Instruct learns Sokoban with two boxes" },
  webshop: { metric: success, title: "SmolLM2-135M-Instruct in WebShop" },
  "calculator-agent": { metric: "reward/mean", title: "An agent learns to use its calculator" },
  "three-domains": {
    metric: "reward/mean",
    domains: {
      "word problems": "reward/math",
      functions: "reward/code",
      "rules kept": "reward/general/ifeval",
      "judge's verdict": "reward/general/judge",
      "rules and judge": "reward/general",
    },
    title: "SmolLM2-135M-Instruct learns three domains at once",
  },
};
/** What else is kept of a validation, where the task has it. */
const besides = {
  reward: "reward/mean",
  turns: "rollout/turns",
  effectiveActions: "env/effective_action",
  validActions: "env/valid_action",
  toolCalls: "env/calls",
  score: "env/score",
  bought: "env/purchased",
};

const [name = "", machine, ...folders] = process.argv.slice(2);
const recipe = recipes[name];
if (recipe === undefined || machine === undefined || folders.length === 0) {
  console.error('Usage: npm run bench -- run-curves <recipe> "<machine>" <run folder, or results file> ...');
  console.error(`Recipes: ${Object.keys(recipes).join(", ")}`);
  process.exit(2);
}
const { metric, title, domains = {} } = recipe;

interface MetricLine {
  readonly step: number;
  readonly timeMs: number;
  readonly kind: string;
  readonly metrics: Readonly<Record<string, number>>;
}

const runs = folders.flatMap((path) => (path.endsWith(".json") ? earlierRuns(path) : [readRun(path)]));
type Run = ReturnType<typeof readRun>;

function earlierRuns(file: string): Run[] {
  return (JSON.parse(readFileSync(file, "utf8")) as { runs: Run[] }).runs;
}

function readRun(folder: string) {
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as MetricLine);
  const train = lines.filter(({ kind }) => kind === "train");
  const validation = lines.filter(({ kind }) => kind === "validation");
  const column = (name: string) => train.map(({ metrics }) => metrics[name]!);
  return {
    minutes: (lines.at(-1)!.timeMs - lines[0]!.timeMs) / 60_000,
    validation: validation.map(({ step, metrics }) => ({
      ...{ step, solved: metrics[`validation/${metric}`]! },
      ...Object.fromEntries(
        Object.entries({ ...besides, ...domains }).flatMap(([name, key]) =>
          metrics[`validation/${key}`] === undefined ? [] : [[name, metrics[`validation/${key}`]!]],
        ),
      ),
    })),
    training: train.map(({ step, metrics }) => ({ step, solved: metrics[metric]! })),
    samplerGap: { first: column("train/sampler_gap")[0]!, last: column("train/sampler_gap").at(-1)! },
  };
}
const newest = folders.findLast((path) => !path.endsWith(".json")) ?? folders[0]!;
const date = newest.endsWith(".json")
  ? (JSON.parse(readFileSync(newest, "utf8")) as { date: string }).date
  : new Date(
      (JSON.parse(readFileSync(join(newest, "metrics.jsonl"), "utf8").split("\n")[0]!) as MetricLine).timeMs,
    ).toISOString();

for (const [i, { minutes, validation }] of runs.entries()) {
  const [first, last] = [validation[0]!.solved, validation.at(-1)!.solved];
  const best = Math.max(...validation.map(({ solved }) => solved));
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
  console.log(
    `run ${i + 1}: ${percent(first)} -> ${percent(last)} (best ${percent(best)}), ${minutes.toFixed(1)} minutes`,
  );
}
writeJson();
writePicture();

function writeJson(): void {
  const file = new URL(`results/${name}.json`, import.meta.url);
  writeFileSync(file, `${JSON.stringify({ name, date, machine, runs }, null, 2)}\n`);
}

/** Means with the range over runs. */
function writePicture(): void {
  const curve = (name: string, points: (run: Run) => readonly { readonly step: number; readonly y: number }[]) => {
    const own = runs.map(points);
    const steps = own[0]!
      .map(({ step }) => step)
      .filter((step) => own.every((some) => some.some((one) => one.step === step)));
    return {
      name,
      points: steps.map((step) => {
        const values = own.map((some) => some.find((one) => one.step === step)!.y);
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        return { x: step, y: mean, low: Math.min(...values), high: Math.max(...values) };
      }),
    };
  };
  const heldOut = (key: string) => (run: Run) =>
    run.validation.map((one) => ({ step: one.step, y: (one as unknown as Record<string, number>)[key]! }));
  const everyFifth = (run: Run) =>
    run.training.filter(({ step }) => step % 5 === 0).map(({ step, solved }) => ({ step, y: solved }));
  const curves =
    recipe!.domains === undefined
      ? [curve("in training", everyFifth), curve("held out, greedy", heldOut("solved"))]
      : Object.keys(domains).map((domain) => curve(domain, heldOut(domain)));
  const what = recipe!.domains === undefined ? "share solved" : "held out, greedy";
  const seeds = runs.length === 1 ? "one seed" : `mean and range of ${runs.length} seeds`;
  const panels = [{ title: `${what}, ${seeds}`, x: "training step", curves }];
  writeFileSync(new URL(`../docs/images/${name}.svg`, import.meta.url), curveFigure({ title, panels }));
}
