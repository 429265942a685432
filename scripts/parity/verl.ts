/**
 * Compares all algorithms with what verl computed.
 *
 * In: a folder with advantages.json, policy-loss.json, rollout-correction.json and misc.json. Out: the largest relative
 * error per kind, by `<file or piece>.<name>.<quantity>`; infinite where a value is missing or NaN.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { RerollError } from "../../src/errors/reroll-error.ts";
import { checkVerlAdvantages } from "./verl-advantages.ts";
import { checkVerlCorrections } from "./verl-corrections.ts";
import { checkVerlLosses } from "./verl-losses.ts";
import { checkVerlMisc } from "./verl-misc.ts";

/** The largest error that is allowed, in float64. */
export const VERL_BAR = 1e-9;

const FILES = ["advantages.json", "policy-loss.json", "rollout-correction.json", "misc.json"];

/** The largest error of every kind in a folder of verl's golden vectors. */
export function checkVerl(folder: string): Record<string, number> {
  const missing = FILES.filter((file) => !existsSync(join(folder, file)));
  if (missing.length > 0) {
    throw new RerollError(
      "FILE_NOT_FOUND",
      `${folder} must hold ${FILES.join(", ")}: ${missing.join(", ")} is missing.`,
      { folder, missing },
    );
  }
  return {
    ...Object.fromEntries(Object.entries(checkVerlAdvantages(folder)).map(([kind, e]) => [`advantages.${kind}`, e])),
    ...checkVerlLosses(folder),
    ...checkVerlCorrections(folder),
    ...checkVerlMisc(folder),
  };
}
