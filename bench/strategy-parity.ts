/**
 * Every strategy with every kind of model against one rank, on the CPU: how far weights and metrics are apart after three optimizer steps.
 *
 * The tests hold a case for each strategy; this is all with all, and takes an hour. Cases that are run replace their rows in
 * bench/results/strategy-parity.json, and the others stay.
 * npx tsx bench/strategy-parity.ts [words that a case must have, such as: "zero 3" lora]
 */
import { existsSync, readFileSync } from "node:fs";
import { distance, type Outcome, type ParityCase, sourceOf, train } from "../test/training/strategy-parity.ts";
import { writeResult } from "./report.ts";

const models = ["qwen2", "qwen3-moe", "qwen3", "llama"] as const;

const strategies: readonly (readonly [number, Record<string, unknown>])[] = [
  [2, {}],
  [4, {}],
  [2, { zero: 1 }],
  [4, { zero: 1 }],
  [2, { zero: 2 }],
  [4, { zero: 2 }],
  [2, { zero: 3 }],
  [4, { zero: 3 }],
  [1, { offload: "optimizer" }],
  [2, { zero: 2, offload: "optimizer" }],
  [2, { zero: 3, offload: "parameters" }],
  [2, { tensor: 2 }],
  [2, { context: 2 }],
  [4, { context: 4 }],
  [4, { zero: 1, tensor: 2 }],
  [4, { zero: 3, tensor: 2 }],
  [4, { zero: 1, context: 2 }],
  [4, { zero: 1, tensor: 2, context: 2 }],
  [4, { zero: 1, tensor: 2, in: "processes" }],
  [2, { expert: 2 }],
  [4, { zero: 1, expert: 2 }],
  [4, { zero: 2, expert: 4 }],
  [4, { zero: 3, expert: 2 }],
  [4, { zero: 1, context: 2, expert: 2 }],
  [2, { pipeline: 2 }],
  [4, { pipeline: 4 }],
  [4, { zero: 1, pipeline: 2 }],
  [4, { pipeline: 2, tensor: 2 }],
  [4, { zero: 1, pipeline: 2, context: 2 }],
  [4, { zero: 1, pipeline: 2, offload: "optimizer", in: "processes" }],
  [4, { zero: 1, pipeline: 2, expert: 2 }],
];

interface Row {
  readonly name: string;
  readonly weights: number;
  readonly metrics: number;
}

const file = new URL("results/strategy-parity.json", import.meta.url);
const known = existsSync(file)
  ? (JSON.parse(readFileSync(file, "utf8")) as { readonly rows: readonly Row[] }).rows
  : [];
const rows = new Map(known.map((row) => [row.name, row]));
const wanted = process.argv.slice(2);
let worst = 0;
for (const model of models)
  for (const isLora of [false, true])
    for (const hasCritic of [false, true]) {
      const alone = new Map<boolean, Outcome>();
      for (const [ranks, strategy] of strategies) {
        const name = [
          model,
          isLora ? "lora" : "full",
          ...(hasCritic ? ["critic"] : []),
          `ranks ${ranks}`,
          words(strategy),
        ].join(" ");
        if (!wanted.every((word) => name.includes(word))) continue;
        if ("expert" in strategy && model !== "qwen3-moe") continue;
        const isDeep = strategy.pipeline === 4;
        const one: ParityCase = { model, isLora, hasCritic, ranks, strategy, isDeep };
        const whole = alone.get(isDeep) ?? (await train(sourceOf({ ...one, ranks: 1, strategy: {} })));
        alone.set(isDeep, whole);
        const apart = distance(whole, await train(sourceOf(one)));
        rows.set(name, { name, weights: apart.weights, metrics: apart.metrics });
        worst = Math.max(worst, apart.weights / 1e-5, apart.metrics / 1e-6);
        console.log(
          `${name.padEnd(70)} weights ${apart.weights.toExponential(1)}  metrics ${apart.metrics.toExponential(1)}  ${apart.metrics > 1e-6 ? apart.worst : ""}`,
        );
      }
      // The whole takes an hour: what is known is written as it comes.
      if (alone.size > 0) writeResult("strategy-parity", { rows: [...rows.values()] });
    }
console.log(worst < 1 ? "All within 1e-5 (weights) and 1e-6 (metrics)." : "SOME ARE TOO FAR APART.");
process.exit(worst < 1 ? 0 : 1);

function words(strategy: Readonly<Record<string, unknown>>): string {
  return Object.entries(strategy)
    .map(([key, value]) => `${key} ${value}`)
    .join(" ");
}
