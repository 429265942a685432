/** Examples as rows of a grid, and which of them go through the model together. */
import { packRows } from "../experience/pack-rows.ts";
import type { TuningExample, TuningSequence } from "../flow/tuning-example.ts";
import { type Grid, gridOf } from "./token-rows.ts";

/** The sequences of a batch, a row each, and which rows belong to which example. */
export interface ExampleGrid {
  readonly examples: readonly TuningExample[];
  readonly rows: Grid<TuningSequence>;
  readonly rowsOf: readonly (readonly number[])[];
  readonly counts: {
    readonly numExamples: number;
    /** Loss tokens. */
    readonly numTokens: number;
    readonly numAllTokens: number;
  };
}

export function exampleGrid(examples: readonly TuningExample[]): ExampleGrid {
  const sequences = examples.flatMap((example) => example.sequences);
  let next = 0;
  const rowsOf = examples.map((example) => example.sequences.map(() => next++));
  return {
    examples,
    rows: gridOf(sequences),
    rowsOf,
    counts: {
      numExamples: examples.length,
      numTokens: sequences.reduce((sum, { lossMask }) => sum + lossMask.reduce((total, one) => total + one, 0), 0),
      numAllTokens: sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
    },
  };
}

/**
 * Places of examples for one forward pass each: at most `maxTokens` different tokens. The sequences of an example stay together, and
 * examples with the same tokens are beside each other, since those go through the model once.
 */
export function exampleParts({ rows, rowsOf }: ExampleGrid, maxTokens: number): readonly (readonly number[])[] {
  const families = new Map<string, number[]>();
  for (const [place, own] of rowsOf.entries()) {
    const key = own.map((row) => rows.twins[row]!).join(" ");
    const family = families.get(key);
    if (family === undefined) families.set(key, [place]);
    else family.push(place);
  }
  const members = [...families.values()];
  const lengths = members.map(([first]) => {
    const distinct = new Set(rowsOf[first!]!.map((row) => rows.twins[row]!));
    return [...distinct].reduce((sum, row) => sum + rows.samples[row]!.tokenIds.length, 0);
  });
  if (lengths.length === 0) return [];
  return packRows(lengths, maxTokens).map((picks) => picks.flatMap((pick) => members[pick]!));
}
