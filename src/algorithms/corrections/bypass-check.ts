import { RerollError } from "../../errors/reroll-error.ts";

interface BypassSettings {
  /** Whether the sampler's log-probs serve as the anchor. */
  readonly isBypass: boolean;
  /** Passes over the same rollout. */
  readonly numEpochs: number;
  /** Accept several epochs in bypass mode. Default false. */
  readonly allowsSeveralEpochs?: boolean;
}

/**
 * Refuses bypass mode with more than one epoch, unless told otherwise.
 *
 * In bypass mode the ratio is policy / sampler. It contains two gaps: the one between sampler and trainer, which is
 * there before the first update, and the one that updates open. With one epoch the second is small. With several, the
 * clip range is used up by the first, and updates stop where sampler and trainer disagree rather than where the policy
 * has moved.
 */
export function expectBypass({ isBypass, numEpochs, allowsSeveralEpochs = false }: BypassSettings): void {
  if (!isBypass || allowsSeveralEpochs || numEpochs <= 1) return;
  throw new RerollError(
    "CONTRADICTORY_OPTIONS",
    `bypass mode takes the ratio against the sampler, and is meant for one epoch: got ${numEpochs}. After the first epoch ` +
      "the clip range holds the gap between sampler and trainer as well as the updates. Set numEpochs to 1, turn bypass " +
      "off so that the anchor is recomputed, or set allowsSeveralEpochs.",
    { isBypass, numEpochs },
  );
}
