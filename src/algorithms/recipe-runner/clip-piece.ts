import { type PpoClipOptions, ppoClipLoss } from "../losses/policy/ppo-clip.ts";
import type { PolicyPiece } from "./recipe.ts";

/**
 * The clipped surrogate, which most recipes share. With one update per rollout the clip never acts, and the gradient is
 * that of REINFORCE.
 */
export function clipPiece({ clipLow, clipHigh, dualClip }: PpoClipOptions): PolicyPiece {
  return { hasRatio: true, loss: (inputs) => ppoClipLoss(inputs, { clipLow, clipHigh, dualClip }) };
}
