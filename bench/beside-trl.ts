/**
 * Time to a held-out score beside TRL: the recipe word-problems in both, alone on the same GPU.
 *
 * In: files with TRL's seconds per step and the scores of its checkpoints, `{ "stepSeconds": [7.3, ...], "scores": { "5": 0.17, ... } }`, and run
 * folders of reroll, one per seed. Out: the table, bench/results/beside-trl.json and docs/images/beside-trl.svg. Seconds are those of steps,
 * without validations, checkpoints and the time until the first step begins, on both sides.
 *
 * Usage: npm run bench -- beside-trl "one NVIDIA H200" trl.json runs/words-1 runs/words-2 runs/words-3
 * A file of earlier results adds the runs of both sides that it holds.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { curveFigure } from "./curve-figure.ts";
import { printTable } from "./report.ts";
import { meanOf, spreadOf } from "./seeded-runs.ts";

const [machine, ...paths] = process.argv.slice(2);
const trlFiles = paths.filter((path) => path.endsWith(".json"));
const folders = paths.filter((path) => !path.endsWith(".json"));
if (machine === undefined || trlFiles.length === 0) {
  console.error('Usage: npm run bench -- beside-trl "<machine>" <trl.json> ... <run folder> ...');
  process.exit(2);
}

/** A score on held-out problems, and the seconds of steps until then. */
interface Point {
  readonly step: number;
  readonly seconds: number;
  readonly solved: number;
}

interface TrlFile {
  readonly stepSeconds: readonly number[];
  readonly scores: Readonly<Record<string, number>>;
}

interface EarlierResults {
  readonly trl: readonly (readonly Point[])[];
  readonly reroll: readonly (readonly Point[])[];
}

interface MetricLine {
  readonly step: number;
  readonly timeMs: number;
  readonly kind: string;
  readonly metrics: Readonly<Record<string, number>>;
}

const files = trlFiles.map((file) => JSON.parse(readFileSync(file, "utf8")) as TrlFile | EarlierResults);
const trl = files.flatMap((file) => ("trl" in file ? file.trl : [readTrl(file)]));
const reroll = [...files.flatMap((file) => ("trl" in file ? file.reroll : [])), ...folders.map(readRun)];
const start = reroll[0]![0]!.solved;
const checkpoints = trl.flatMap((points) => points.filter(({ step, solved }) => step > 0 && solved > start));
const rows = checkpoints.map(({ solved: target, seconds: theirs }) => {
  const ours = reroll.map((points) => secondsTo(points, target));
  const reached = ours.filter((seconds) => seconds !== null);
  return { target, theirs, ours, times: reached.length < ours.length ? null : theirs / meanOf(reached) };
});
printTable(
  "Seconds of steps to what a checkpoint of TRL solves",
  ["solved", "TRL", ...reroll.map((_, i) => `reroll, seed ${i + 1}`), "times"],
  rows.map(({ target, theirs, ours, times }) => [
    ...[`${(100 * target).toFixed(1)} %`, theirs.toFixed(1), ...ours.map((one) => one?.toFixed(1) ?? "not reached")],
    times?.toFixed(1) ?? "",
  ]),
);
writeFileSync(
  new URL("results/beside-trl.json", import.meta.url),
  `${JSON.stringify({ name: "beside-trl", machine, trl, reroll, rows }, null, 2)}\n`,
);
drawCurves();

function readTrl({ stepSeconds, scores }: TrlFile): Point[] {
  return Object.entries(scores).map(([step, solved]) => {
    const seconds = stepSeconds.slice(0, Number(step)).reduce((sum, one) => sum + one, 0);
    return { step: Number(step), seconds, solved };
  });
}

function readRun(folder: string): Point[] {
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  let seconds = 0;
  const points: Point[] = [];
  for (const { kind, step, metrics } of lines.map((line) => JSON.parse(line) as MetricLine)) {
    if (kind === "train") seconds += stepSeconds(metrics);
    if (kind === "validation") points.push({ step, seconds, solved: metrics["validation/reward/mean"]! });
  }
  return points;
}

/** Everything in a step but validation and checkpoints. */
function stepSeconds(metrics: MetricLine["metrics"]): number {
  const besides = (metrics["time/validate_ms"] ?? 0) + (metrics["time/checkpoint_ms"] ?? 0);
  return (metrics["time/step_ms"]! - besides) / 1000;
}

/** When the score was first reached, on a straight line between measurements. Null where it was not. */
function secondsTo(points: readonly Point[], target: number): number | null {
  const index = points.findIndex(({ solved }) => solved >= target);
  const after = points[index];
  const before = points[index - 1];
  if (after === undefined) return null;
  if (before === undefined) return after.seconds;
  const share = (target - before.solved) / (after.solved - before.solved);
  return before.seconds + share * (after.seconds - before.seconds);
}

function drawCurves(): void {
  const ours = reroll[0]!.map((_, i) => ({
    x: meanOf(reroll.map((points) => points[i]!.seconds)),
    ...spreadOf(reroll.map((points) => points[i]!.solved)),
  }));
  const theirs = trl.map((points, i) => ({
    name: `TRL, run ${i + 1}`,
    points: points.map(({ seconds, solved }) => ({ x: seconds, y: solved, low: solved, high: solved })),
  }));
  const curves = [...theirs, { name: `reroll, ${reroll.length} seeds`, points: ours }];
  const panels = [{ title: "share of held-out problems solved", x: "seconds of steps", curves }];
  const title = "Word problems beside TRL, SmolLM2-135M-Instruct, one H200";
  writeFileSync(new URL("../docs/images/beside-trl.svg", import.meta.url), curveFigure({ title, panels }));
}
