/** Runs of recipes with several seeds, and what they come to: mean and spread over seeds. */
import type { Machine } from "./report.ts";

export interface LearningPoint {
  readonly step: number;
  /** Warm start, training and validation so far. */
  readonly seconds: number;
  /** Of the metric that the recipe is validated by. */
  readonly value: number;
  /** Share of moves that changed something, where the environment tells. */
  readonly effectiveActions?: number;
}

export interface LearningRun {
  readonly recipe: string;
  readonly seed: number;
  readonly metric: string;
  /** Threads of one operator. */
  readonly threads: number;
  /** What random play gets on the tasks of the validation. */
  readonly random: Omit<LearningPoint, "step" | "seconds">;
  readonly curve: readonly LearningPoint[];
  readonly machine: Machine;
  readonly date: string;
}

export interface Spread {
  readonly mean: number;
  /** Over seeds, with one seed less in the denominator. 0 for one seed. */
  readonly deviation: number;
  readonly lowest: number;
  readonly highest: number;
}

/** One entry per recipe, in the order of their first runs. */
export function summarizeLearning(runs: readonly LearningRun[]) {
  return [...new Set(runs.map(({ recipe }) => recipe))].map((recipe) => {
    const own = runs.filter((run) => run.recipe === recipe);
    const over = (pick: (run: LearningRun) => number) => spreadOf(own.map(pick));
    const hasEffective = own.every(({ random }) => random.effectiveActions !== undefined);
    return {
      recipe,
      metric: own[0]!.metric,
      seeds: own.map(({ seed }) => seed),
      random: over(({ random }) => random.value),
      first: over(({ curve }) => curve[0]!.value),
      last: over(({ curve }) => curve.at(-1)!.value),
      ...(hasEffective && {
        effectiveRandom: over(({ random }) => random.effectiveActions!),
        effectiveLast: over(({ curve }) => curve.at(-1)!.effectiveActions!),
      }),
      seconds: over(({ curve }) => curve.at(-1)!.seconds),
    };
  });
}

function spreadOf(numbers: readonly number[]): Spread {
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const squares = numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / Math.max(1, numbers.length - 1));
  const round = (value: number) => Number(value.toFixed(4));
  return {
    mean: round(mean),
    deviation: round(deviation),
    lowest: Math.min(...numbers),
    highest: Math.max(...numbers),
  };
}
