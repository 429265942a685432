/** Control runs with several seeds, what they come to, and what is asked of them. */
import type { Machine } from "./report.ts";

export interface ControlLearningPoint {
  /** Steps of single environments. */
  readonly envSteps: number;
  readonly seconds: number;
  /** Mean return of the last 100 episodes. */
  readonly value: number;
}

export interface ControlLearningRun {
  readonly recipe: string;
  readonly seed: number;
  readonly curve: readonly ControlLearningPoint[];
  readonly machine: Machine;
  readonly date: string;
}

/** What is published for the same settings (CleanRL, three seeds), or for tuned ones (Pendulum), and the bar set by it. */
export const controlBars: Readonly<Record<string, { readonly bar: number; readonly published: string }>> = {
  "cart-pole": { bar: 475, published: "490.0 +- 6.1" },
  acrobot: { bar: -95, published: "-86.4 +- 1.3" },
  pendulum: { bar: -250, published: "-172 +- 104, tuned" },
  "half-cheetah": { bar: 1443 - 46, published: "1443 +- 46" },
  hopper: { bar: 2383 - 272, published: "2383 +- 272" },
};

/** One entry per recipe, in the order of their first runs. */
export function summarizeControl(runs: readonly ControlLearningRun[]) {
  return [...new Set(runs.map(({ recipe }) => recipe))].map((recipe) => {
    const own = runs.filter((run) => run.recipe === recipe);
    const last = own.map(({ curve }) => curve.at(-1)!);
    const mean = meanOf(last.map(({ value }) => value));
    const squares = last.reduce((sum, { value }) => sum + (value - mean) ** 2, 0);
    return {
      recipe,
      seeds: own.map(({ seed }) => seed),
      envSteps: last[0]!.envSteps,
      values: last.map(({ value }) => value),
      mean: Number(mean.toFixed(1)),
      deviation: Number(Math.sqrt(squares / last.length).toFixed(1)),
      seconds: Number(meanOf(last.map(({ seconds }) => seconds)).toFixed(0)),
      ...controlBars[recipe],
    };
  });
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
