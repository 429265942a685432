/**
 * A training step against Python: the same decoder, weights, data and libtorch, float32 on the CPU.
 *
 * node --import tsx bench/train-step.ts [rounds] [preset ...]
 * Python runs twice, with OpenMP's default waiting and with the passive waiting that the addon sets, and is compared by
 * the better of the two. Bar: a step takes at most 1.05 of Python's time. The losses of the first steps must be equal.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { saveCausalLm } from "../src/models/causal-lm/save-causal-lm.ts";
import { native } from "../src/torch/binding.ts";
import { DecoderTraining, settings, type Workload } from "./decoder-training.ts";
import { PythonChild } from "./python-child.ts";
import { printTable, verdict, writeResult } from "./report.ts";
import { spread } from "./statistics.ts";
import { measure, type Sample, type Timing, takeTurns } from "./take-turns.ts";

const bar = 1.05;
const lossTolerance = 1e-4;
const numComparedSteps = 5;

interface Subject extends Workload {
  /** Short steps follow each other in a turn, so that the caches are as warm as they are in training. */
  readonly stepsPerTurn: number;
}

const subjects: readonly Subject[] = [
  { preset: "micro", vocabSize: 512, rows: 8, tokensPerRow: 256, stepsPerTurn: 3 },
  { preset: "small", vocabSize: 2048, rows: 8, tokensPerRow: 256, stepsPerTurn: 1 },
];

interface Result {
  readonly workload: Workload;
  readonly numParameters: number;
  readonly threads: number;
  readonly timings: Readonly<Record<"reroll" | "pythonDefault" | "pythonPassive", Timing>>;
  /** To the better of the two Pythons: of median wall times, of least wall times, and of median processor times. */
  readonly ratio: number;
  readonly ratioOfMinimums: number;
  readonly ratioOfCpu: number;
}

interface Step extends Sample {
  readonly loss: number;
}

const [rounds = "12", ...presets] = process.argv.slice(2);
const results: Result[] = [];
for (const subject of subjects) {
  if (presets.length === 0 || presets.includes(subject.preset)) results.push(...(await compare(subject)));
}
report();

async function compare(subject: Subject): Promise<Result[]> {
  const training = new DecoderTraining(subject);
  const children = {
    pythonDefault: new PythonChild("train_step.py", "default"),
    pythonPassive: new PythonChild("train_step.py", "passive"),
  };
  for (const child of Object.values(children)) await start(child, training, subject);
  const losses = Array.from({ length: numComparedSteps }, () => training.step());
  for (const child of Object.values(children)) expectEqual(losses, await takeSteps(child, numComparedSteps));

  const { stepsPerTurn: count } = subject;
  const turns = {
    reroll: async () => Array.from({ length: count }, () => measure(() => void training.step())),
    pythonDefault: () => takeSteps(children.pythonDefault, count),
    pythonPassive: () => takeSteps(children.pythonPassive, count),
  };
  const found: Result[] = [];
  for (const threads of [1, 2]) {
    native.setNumThreads(threads);
    for (const child of Object.values(children)) await child.request("threads", { count: threads });
    // Threads that spin lose the cores to anything else that runs, and then take minutes for a step.
    const timings = await takeTurns(turns, Number(rounds), { hopelessRatio: 3 });
    found.push(resultOf(subject, training.model.numParameters(), threads, timings));
  }
  for (const child of Object.values(children)) await child.stop();
  return found;
}

async function start(child: PythonChild, { model, batches }: DecoderTraining, subject: Subject): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "reroll-bench-"));
  saveCausalLm(model, folder);
  await child.request("start", {
    folder,
    batches: batches.map(({ ids_S, targets_S }) => [ids_S.toArray(), targets_S.toArray()]),
    shape: [subject.rows, subject.tokensPerRow],
    settings,
  });
  rmSync(folder, { recursive: true });
}

function takeSteps(child: PythonChild, count: number): Promise<readonly Step[]> {
  return child.request<readonly Step[]>("steps", { count });
}

/** The two sides compute the same thing, or there is nothing to compare. */
function expectEqual(losses: readonly number[], steps: readonly Step[]): void {
  const difference = Math.max(...losses.map((loss, i) => Math.abs(loss - steps[i]!.loss)));
  if (difference <= lossTolerance) return;
  const theirs = steps.map(({ loss }) => loss);
  throw new Error(`The losses of the first steps differ by ${difference}: reroll ${losses}, Python ${theirs}.`);
}

function resultOf(
  { stepsPerTurn: _, ...workload }: Subject,
  numParameters: number,
  threads: number,
  timings: Result["timings"],
): Result {
  const { reroll, pythonDefault, pythonPassive } = timings;
  const ratioBy = (quantity: (timing: Timing) => number) =>
    quantity(reroll) / Math.min(quantity(pythonDefault), quantity(pythonPassive));
  return {
    workload,
    numParameters,
    threads,
    timings,
    ratio: ratioBy(({ wall }) => wall.median),
    ratioOfMinimums: ratioBy(({ wall }) => wall.minimum),
    ratioOfCpu: ratioBy(({ cpu }) => cpu.median),
  };
}

function report(): void {
  const headers = ["decoder", "threads", "reroll", "Python", "Python passive", "ratio", "of minimums", "of cpu time"];
  const nameOf = ({ workload, numParameters }: Result) =>
    `${workload.preset}, ${(numParameters / 1e6).toFixed(1)}M, ${workload.rows}x${workload.tokensPerRow}`;
  const rows = results.map((result) => [
    nameOf(result),
    String(result.threads),
    spread(result.timings.reroll.wall, 0),
    spread(result.timings.pythonDefault.wall, 0),
    spread(result.timings.pythonPassive.wall, 0),
    result.ratio.toFixed(3),
    result.ratioOfMinimums.toFixed(3),
    result.ratioOfCpu.toFixed(3),
  ]);
  printTable("Training step, ms: median (quartiles)", headers, rows);
  console.log("");
  for (const result of results) {
    const { ratio, threads } = result;
    console.log(`${nameOf(result)}, ${threads} threads: ${ratio.toFixed(3)} of Python's time, ${verdict(ratio, bar)}.`);
  }
  writeResult("train-step", { unit: "ms per step", bar, lossTolerance, settings, results });
}
