/**
 * The curves of a recipe: run folders of several seeds in, a picture for the documentation and bench/results/<recipe>.json out.
 *
 * Usage: npm run bench -- run-curves word-problems "one NVIDIA H200" runs/seed-1 runs/seed-2 runs/seed-3
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { curveFigure } from "./curve-figure.ts";

/** What each recipe's curves show. */
const recipes: Readonly<Record<string, { readonly metric: string; readonly title: string }>> = {
  "word-problems": { metric: "reward/mean", title: "SmolLM2-135M-Instruct learns word problems" },
  "chat-frozen-lake": { metric: "env/success", title: "SmolLM2-135M-Instruct learns to cross frozen lakes" },
  "chat-sokoban": { metric: "env/success", title: "SmolLM2-135M-Instruct learns Sokoban" },
};

const [name = "", machine, ...folders] = process.argv.slice(2);
const recipe = recipes[name];
if (recipe === undefined || machine === undefined || folders.length === 0) {
  console.error('Usage: npm run bench -- run-curves <recipe> "<machine>" <run folder> ...');
  console.error(`Recipes: ${Object.keys(recipes).join(", ")}`);
  process.exit(2);
}
const { metric, title } = recipe;

interface MetricLine {
  readonly step: number;
  readonly timeMs: number;
  readonly kind: string;
  readonly metrics: Readonly<Record<string, number>>;
}

const runs = folders.map((folder) => {
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as MetricLine);
  const train = lines.filter(({ kind }) => kind === "train");
  const validation = lines.filter(({ kind }) => kind === "validation");
  const column = (name: string) => train.map(({ metrics }) => metrics[name]!);
  return {
    minutes: (lines.at(-1)!.timeMs - lines[0]!.timeMs) / 60_000,
    validation: validation.map(({ step, metrics }) => ({ step, solved: metrics[`validation/${metric}`]! })),
    training: train.map(({ step, metrics }) => ({ step, solved: metrics[metric]! })),
    samplerGap: { first: column("train/sampler_gap")[0]!, last: column("train/sampler_gap").at(-1)! },
  };
});
const date = new Date(
  Number(JSON.parse(readFileSync(join(folders[0]!, "metrics.jsonl"), "utf8").split("\n")[0]!).timeMs),
);

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
  writeFileSync(file, `${JSON.stringify({ name, date: date.toISOString(), machine, runs }, null, 2)}\n`);
}

/** Means with the range over runs. */
function writePicture(): void {
  const curve = (name: string, part: "training" | "validation", every: number) => {
    const steps = runs[0]![part].map(({ step }) => step).filter((step) => step % every === 0);
    const points = steps.map((step) => {
      const values = runs.map((run) => run[part].find((one) => one.step === step)!.solved);
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      return { x: step, y: mean, low: Math.min(...values), high: Math.max(...values) };
    });
    return { name, points };
  };
  const curves = [curve("in training", "training", 5), curve("held out, greedy", "validation", 20)];
  const panels = [{ title: `share solved, mean and range of ${runs.length} seeds`, x: "training step", curves }];
  writeFileSync(new URL(`../docs/images/${name}.svg`, import.meta.url), curveFigure({ title, panels }));
}
