/** How the weights of a model and the tokens of a pass are split over ranks. */
import { RerollError } from "../../errors/reroll-error.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import type { Split } from "../../torch/distributed/split.ts";

export interface ModelSpread {
  /** The ranks that split every layer: heads, the width of MLPs and experts, and the vocabulary. Each has all tokens. */
  readonly tensor: Collective;
  /** The ranks that split the tokens of a pass. In attention each has all tokens and some of the heads. */
  readonly context: Collective;
}

/** A model that is all here. */
export const wholeModel: ModelSpread = { tensor: Collective.alone, context: Collective.alone };

/** The split of a parameter whose parts, of these sizes here, are equal on all ranks; null where there is one rank. */
export function splitAlong(dim: number, sizes: readonly number[], ranks: Collective): Split | null {
  return ranks.count === 1 ? null : { ranks, dim, sizes: sizes.map((size) => size * ranks.count) };
}

/** The share of each of several ranks. Throws where there is none: `what` names a size of the model. */
export function evenShare(what: string, size: number, count: number): number {
  if (size % count === 0) return size / count;
  throw new RerollError(
    "INVALID_CONFIG",
    `A model cannot be split over ${count} ranks that do not divide ${what}: it has ${size}. Lower training.strategy.tensor or training.strategy.context.`,
  );
}
