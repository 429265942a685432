/** The rows of each update of a step. */
import { deriveSeed, Random } from "../random/random.ts";
import type { Grid } from "./token-rows.ts";

interface MinibatchOptions {
  /** Trajectories per update; 0 for one update per rollout. */
  readonly minibatchTrajectories: number;
  readonly seed: number;
  /** Steps before this one, and passes over its batch before this one. */
  readonly numSteps: number;
  readonly epoch: number;
}

/** Whole trajectories, in an order drawn anew for every pass. */
export function minibatchesOf(
  { samples }: Pick<Grid, "samples">,
  { minibatchTrajectories, seed, numSteps, epoch }: MinibatchOptions,
): readonly (readonly number[])[] {
  const rowsOf = new Map<number, number[]>();
  for (const [row, { trajectory }] of samples.entries()) {
    const rows = rowsOf.get(trajectory);
    if (rows === undefined) rowsOf.set(trajectory, [row]);
    else rows.push(row);
  }
  const everyRow = [samples.map((_, row) => row)];
  if (minibatchTrajectories === 0 || minibatchTrajectories >= rowsOf.size) return everyRow;
  const random = new Random(deriveSeed(seed, "minibatch", numSteps, epoch));
  const order = random.shuffled([...rowsOf.keys()]);
  const count = Math.ceil(rowsOf.size / minibatchTrajectories);
  const cut = (i: number) => i * minibatchTrajectories;
  return Array.from({ length: count }, (_, i) => order.slice(cut(i), cut(i + 1)).flatMap((key) => rowsOf.get(key)!));
}
