import type { RolloutCorrectionOptions } from "../corrections/correction-options.ts";
import { parseVerlOptions, parseVerlOverrides, type VerlCorrection } from "../corrections/parse-verl-options.ts";

/** The two keys of every recipe that hold what verl keeps under `algorithm.rollout_correction`. */
export interface CorrectionChoice {
  readonly correction: RolloutCorrectionOptions | null;
  readonly bypass: { readonly loss: "recipe" | "reinforce" } | null;
}

/**
 * Turns verl's options, given as a mapping or as command-line overrides, into options of a recipe that read thresholds
 * as verl does.
 *
 * @example buildRecipe({ type: "grpo", ...fromVerl(["algorithm.rollout_correction.rollout_is=token"]) })
 */
export function fromVerl(options: readonly string[] | Readonly<Record<string, unknown>>): CorrectionChoice {
  return choiceOf(isOverrides(options) ? parseVerlOverrides(options) : parseVerlOptions(options));
}

function choiceOf({ correction, isBypass, lossType }: VerlCorrection): CorrectionChoice {
  const isEmpty = correction.importance === null && Object.keys(correction.rejections ?? {}).length === 0;
  return {
    correction: isEmpty ? null : correction,
    bypass: isBypass ? { loss: lossType === "reinforce" ? "reinforce" : "recipe" } : null,
  };
}

function isOverrides(options: readonly string[] | Readonly<Record<string, unknown>>): options is readonly string[] {
  return Array.isArray(options);
}
