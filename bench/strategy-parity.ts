/**
 * Every strategy and combination on 2 and on 4 ranks against one rank, on the CPU with Gloo: how far weights and metrics are apart after three optimizer
 * steps. A dense model and a mixture of experts, whole and with LoRA, with and without a critic; and every recipe under one of each kind of strategy.
 *
 * What cannot be is left out with the sentence that a user would get. Tests draw from this; the whole takes an hour of processor time. Cells that are
 * run replace their rows in bench/results/strategy-parity.json, and the others stay.
 *
 * npm run bench -- strategy-parity [--jobs 2] [--missing: only cells without a row] [words that a cell must have, such as: "zero 3" lora]
 */
import { type ChildProcess, fork } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { buildRecipe } from "../src/algorithms/recipes/table.ts";
import { splitProblem } from "../src/models/causal-lm/model-spread.ts";
import { Random } from "../src/random/random.ts";
import { checkStrategy, type StrategyOptions, strategyOptions } from "../src/training/strategy/strategy-options.ts";
import {
  deepConfig,
  distance,
  type Outcome,
  type ParityCase,
  sourceOf,
  train,
} from "../test/training/strategy-parity.ts";
import { recipeCases } from "../test/training/token-batches.ts";
import { writeResult } from "./report.ts";

interface Row {
  readonly name: string;
  readonly weights: number;
  readonly metrics: number;
  /** Of metrics that show the rounding of single tokens: extremes, and means of squared ratios. */
  readonly extremes: number;
  readonly worst?: string;
}

interface Cell {
  readonly name: string;
  readonly one: ParityCase;
}

/** Cells that are compared with the same one rank. */
type Chunk = readonly Cell[];

const BOUNDS = { weights: 1e-5, metrics: 1e-6, extremes: 5e-6 };

/** Kinds of strategies that recipes are crossed with. */
const forRecipes: readonly (readonly [number, Record<string, unknown>])[] = [
  [2, {}],
  [2, { zero: 1, offload: "optimizer" }],
  [2, { zero: 2 }],
  [2, { zero: 3 }],
  [2, { tensor: 2 }],
  [2, { context: 2 }],
  [2, { pipeline: 2 }],
  [2, { expert: 2 }],
  [4, {}],
  [4, { zero: 1, tensor: 2, context: 2 }],
  [4, { zero: 1, pipeline: 2, tensor: 2 }],
  [4, { zero: 3, expert: 2 }],
];

const isWorker = process.send !== undefined && process.argv.includes("--cells");
await (isWorker ? runChunk() : runAll());

async function runAll(): Promise<void> {
  const { values, positionals } = parseArgs({
    args: process.argv.slice(2),
    allowPositionals: true,
    options: {
      jobs: { type: "string", default: String(availableParallelism()) },
      missing: { type: "boolean", default: false },
    },
  });
  const { cells, skipped } = allCells();
  const file = new URL("results/strategy-parity.json", import.meta.url);
  const known = existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { rows: readonly Row[] }).rows : [];
  const names = new Set(cells.map(({ name }) => name));
  const rows = new Map(known.filter(({ name }) => names.has(name)).map((row) => [row.name, row]));
  const isWanted = ({ name }: Cell) =>
    positionals.every((word) => name.includes(word)) && !(values.missing && rows.has(name));
  const chunks = chunksOf(cells.filter(isWanted));
  const failed: string[] = [];
  const save = () =>
    writeResult("strategy-parity", {
      numCells: cells.length,
      bounds: BOUNDS,
      skipped,
      failed,
      rows: cells.flatMap(({ name }) => rows.get(name) ?? []),
    });
  const take = async () => {
    for (let chunk = chunks.shift(); chunk !== undefined; chunk = chunks.shift()) {
      const left = await inProcess(chunk, (row) => {
        rows.set(row.name, row);
        if (!isWithin(row)) failed.push(row.name);
        const shown = [row.weights, row.metrics, row.extremes].map((value) => value.toExponential(1)).join(" ");
        console.log(`${row.name.padEnd(76)} ${shown} ${isWithin(row) ? "" : row.worst}`);
      });
      failed.push(...left);
      for (const name of left) console.log(`${name}: its process ended`);
      // The whole takes long: what is known is written as it comes.
      save();
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, take));
  console.log(`${rows.size} of ${cells.length} cells, ${failed.length} outside of their bounds: ${failed.join(", ")}`);
  process.exit(failed.length === 0 ? 0 : 1);
}

/** Gives the names of cells that it did not come to. */
function inProcess(chunk: Chunk, onRow: (row: Row) => void): Promise<readonly string[]> {
  const left = new Set(chunk.map(({ name }) => name));
  const child: ChildProcess = fork(fileURLToPath(import.meta.url), ["--cells"], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.on("message", (row: Row) => {
    left.delete(row.name);
    onRow(row);
  });
  child.send(chunk);
  return new Promise((resolve) => child.on("exit", () => resolve([...left])));
}

async function runChunk(): Promise<void> {
  process.once("disconnect", () => process.exit(1));
  const chunk = await new Promise<Chunk>((resolve) => process.once("message", (given) => resolve(given as Chunk)));
  let alone: Outcome | null = null;
  for (const { name, one } of chunk) {
    const batch = one.recipe?.batch ?? "mixed";
    alone ??= await train(sourceOf({ ...one, ranks: 1, strategy: {} }), batch);
    const outcome = await train(sourceOf(one), batch);
    const isExtreme = (metric: string) => /_(min|max)$|chi2/.test(metric);
    const usual = distance(alone, outcome, (metric) => !isExtreme(metric));
    const { metrics: extremes, worst } = distance(alone, outcome, isExtreme);
    const { weights, metrics } = usual;
    const row: Row = { name, weights, metrics, extremes };
    process.send!(isWithin(row) ? row : { ...row, worst: metrics > BOUNDS.metrics ? usual.worst : worst });
  }
  process.exit(0);
}

function isWithin({ weights, metrics, extremes }: Row): boolean {
  return weights < BOUNDS.weights && metrics < BOUNDS.metrics && extremes < BOUNDS.extremes;
}

/** All that can be, and how many cells there would be of what cannot, by the reason. */
function allCells(): { readonly cells: readonly Cell[]; readonly skipped: Readonly<Record<string, number>> } {
  const cells: Cell[] = [];
  const skipped: Record<string, number> = {};
  const add = (one: Omit<ParityCase, "isDeep">, words: readonly string[]) => {
    const options = strategyOptions.strategy.parse(one.strategy);
    const reason =
      checkStrategy(one.ranks, options) ?? splitProblem(deepConfig(one.model), options) ?? sameAsOthers(one, options);
    const name = [one.model, ...words, `ranks ${one.ranks}`, wordsOf(one.strategy)].join(" ").trim();
    if (reason === null) cells.push({ name, one: { ...one, isDeep: isDeep(options) } });
    else skipped[general(reason)] = (skipped[general(reason)] ?? 0) + 1;
  };
  for (const model of ["qwen3", "qwen3-moe"] as const) {
    for (const isLora of [false, true])
      for (const hasCritic of [false, true]) {
        const words = [isLora ? "lora" : "full", ...(hasCritic ? ["critic"] : [])];
        for (const [ranks, strategy] of allStrategies()) add({ model, isLora, hasCritic, ranks, strategy }, words);
      }
    for (const recipe of recipeCases) {
      const { hasCritic } = buildRecipe(recipe.choice);
      for (const [ranks, strategy] of forRecipes)
        add({ model, recipe, hasCritic, ranks, strategy }, [`recipe ${recipe.name}`]);
    }
  }
  return { cells, skipped };
}

/** Reasons differ by their numbers. */
function general(reason: string): string {
  return reason.replaceAll(/\d+/g, "n");
}

/** Cells that would show what others do. */
function sameAsOthers({ recipe, model }: Omit<ParityCase, "isDeep">, { expert }: StrategyOptions): string | null {
  const isOther = recipe !== undefined && (model === "qwen3-moe") !== expert > 1;
  return isOther
    ? "Recipes score what was measured, whoever measured it: they run on the dense model, and on the mixture with expert."
    : null;
}

/** Those whose parts make up the ranks, sensible or not. */
function* allStrategies(): Generator<readonly [number, Record<string, unknown>]> {
  yield [1, { offload: "optimizer" }];
  const counts = [1, 2, 4];
  for (const ranks of [2, 4])
    for (const tensor of counts)
      for (const context of counts)
        for (const expert of counts)
          for (const pipeline of counts) {
            const isEven = ranks % (tensor * context * pipeline) === 0 && ranks % (context * expert * pipeline) === 0;
            for (const zero of isEven ? [0, 1, 2, 3] : [])
              for (const offload of ["none", "optimizer", "parameters"])
                yield [ranks, withoutDefaults({ zero, offload, tensor, context, expert, pipeline })];
          }
  for (const strategy of [{ zero: 1, tensor: 2 }, { zero: 3 }, { zero: 1, pipeline: 2, offload: "optimizer" }])
    yield [4, { ...strategy, in: "processes" }];
}

/** Only zero can be 1 and mean something. */
function withoutDefaults(strategy: Readonly<Record<string, number | string>>): Record<string, unknown> {
  const isUsual = ([key, value]: [string, number | string]) => value === "none" || value === (key === "zero" ? 0 : 1);
  return Object.fromEntries(Object.entries(strategy).filter((entry) => !isUsual(entry)));
}

function isDeep({ tensor, context, pipeline }: StrategyOptions): boolean {
  return Math.max(tensor, context, pipeline) === 4 || tensor * pipeline > 2;
}

/** Cells of one model, kind and recipe, a few at a time so that all jobs have something to do until the end. */
function chunksOf(cells: readonly Cell[]): Chunk[] {
  const byKey = new Map<string, Cell[]>();
  for (const cell of cells) {
    const { ranks: _ranks, strategy: _strategy, ...alone } = cell.one;
    const key = JSON.stringify(alone);
    byKey.set(key, [...(byKey.get(key) ?? []), cell]);
  }
  const size = 12;
  const chunks = [...byKey.values()].flatMap((list) =>
    Array.from({ length: Math.ceil(list.length / size) }, (_, i) => list.slice(i * size, (i + 1) * size)),
  );
  // In an order that is drawn: one that is stopped has seen some of everything.
  return [...new Random(1).shuffled(chunks)];
}

function wordsOf(strategy: Readonly<Record<string, unknown>>): string {
  return Object.entries(strategy)
    .map(([key, value]) => `${key} ${value}`)
    .join(" ");
}
