/** The order in which examples are learned: pass after pass, each shuffled anew. Follows from the seed, so a position is a step. */
import { deriveSeed, Random } from "../random/random.ts";

interface OrderOptions {
  readonly numExamples: number;
  readonly rowsPerStep: number;
  /** Examples in the whole run. The last batch is smaller where they do not fill it. */
  readonly numInAll: number;
  readonly seed: number;
}

/** The places of the examples of each batch. A batch may hold the end of one pass and the beginning of the next. */
export function exampleOrder({
  numExamples,
  rowsPerStep,
  numInAll,
  seed,
}: OrderOptions): (step: number) => readonly number[] {
  let known = { pass: -1, order: [] as readonly number[] };
  const orderOf = (pass: number) => {
    if (known.pass !== pass) {
      const places = Array.from({ length: numExamples }, (_, i) => i);
      known = { pass, order: new Random(deriveSeed(seed, "epoch", pass)).shuffled(places) };
    }
    return known.order;
  };
  return (step) => {
    const start = step * rowsPerStep;
    const length = Math.max(0, Math.min(rowsPerStep, numInAll - start));
    return Array.from({ length }, (_, i) => orderOf(Math.floor((start + i) / numExamples))[(start + i) % numExamples]!);
  };
}
