/**
 * Finds options that are valid on their own but contradict each other, when a recipe is built and before anything runs.
 */
import { RerollError } from "../../errors/reroll-error.ts";
import { expectBypass } from "../corrections/bypass-check.ts";
import type { CommonOptions } from "./recipe-options.ts";

/**
 * Throws a `CONTRADICTORY_OPTIONS` error that starts with the key, `path` being where the options are in the run file.
 */
export function checkOptions(options: CommonOptions, path: string): void {
  checkClip(options, path);
  checkBypass(options, path);
  const { correction, outliers, entropy, klReward } = options;
  if (correction !== null && correction.importance === null && Object.keys(correction.rejections).length === 0) {
    throw contradiction(
      `${path}.correction corrects nothing: it has neither importance nor rejections. Add one of them, or set it to null.`,
    );
  }
  if (outliers !== null && outliers.low > outliers.high) {
    throw contradiction(
      `${path}.outliers.low must be at most ${path}.outliers.high: got ${outliers.low} and ${outliers.high}.`,
    );
  }
  if (entropy?.type === "adaptive" && entropy.smallest > entropy.largest) {
    throw contradiction(
      `${path}.entropy.smallest must be at most ${path}.entropy.largest: got ${entropy.smallest} and ${entropy.largest}.`,
    );
  }
  if (klReward !== null && klReward.coefficient === 0) {
    throw contradiction(
      `${path}.klReward.coefficient is 0, which costs a reference policy and changes nothing${klReward.adaptive ? ", also where it adapts: the update multiplies it" : ""}. ` +
        `Set it above 0, or ${path}.klReward to null.`,
    );
  }
}

/** An error about options that do not go together. */
export function contradiction(message: string): RerollError {
  return new RerollError("CONTRADICTORY_OPTIONS", message);
}

function checkClip(options: CommonOptions & { readonly clipLow?: unknown; readonly clipHigh?: unknown }, path: string) {
  const { clipLow, clipHigh } = options;
  // A clipLow of 1 is not a lower bound, and leaves nothing to compare with.
  if (typeof clipLow !== "number" || typeof clipHigh !== "number" || clipHigh >= clipLow || clipLow === 1) return;
  throw contradiction(
    `${path}.clipHigh must be at least ${path}.clipLow: got ${clipHigh} and ${clipLow}. Set clipHigh to ${clipLow} or more.`,
  );
}

function checkBypass({ bypass, numEpochs, correction }: CommonOptions, path: string): void {
  if (bypass === null) return;
  expectBypass({ isBypass: true, numEpochs, allowsSeveralEpochs: bypass.allowsSeveralEpochs });
  if (bypass.loss === "reinforce" && correction === null) {
    throw contradiction(
      `${path}.bypass.loss is reinforce, which has no ratio, and ${path}.correction is null: nothing would correct for the ` +
        "sampler. Set correction.importance or correction.rejections, or bypass.loss to recipe.",
    );
  }
}
