import type { RolloutCorrection } from "../corrections/correction-options.ts";
import type { BatchInput, RecipePieces } from "./recipe.ts";
import type { CommonOptions } from "./recipe-options.ts";

/** A recipe before it meets data: everything that `score` and `loss` need to know. */
export interface RecipePlan {
  readonly type: string;
  readonly options: CommonOptions;
  readonly pieces: RecipePieces;
  readonly correction: RolloutCorrection | null;
  readonly needs: readonly BatchInput[];
  /** See Recipe. */
  readonly scoresAnchor: boolean;
}
