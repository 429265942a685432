/** How old the tokens of a run may become, in training steps since the weights that drew them. */
import type { RunConfig } from "./run-config.ts";

/** Maximum staleness of tokens that nothing corrects for. Beyond it, a clip range alone does not hold the policy. */
export const MAX_UNCORRECTED = 4;

/** A key of the run file that lets tokens grow old, and how old. */
interface StalenessBound {
  readonly key: "loop.maxStaleness" | "replay.maxAge";
  readonly steps: number;
}

/** The bounds that apply to a run: none if every token is trained on by the weights that drew it. */
export function stalenessBounds({ loop, rollout, replay }: RunConfig): readonly StalenessBound[] {
  const sampled = maxSampledStaleness({ loop, rollout });
  return [
    ...(sampled === 0 ? [] : [{ key: "loop.maxStaleness", steps: sampled } as const]),
    ...(replay === null || replay.ratio === 0 ? [] : [{ key: "replay.maxAge", steps: replay.maxAge } as const]),
  ];
}

/** The bound on tokens that come from rollout. */
export function maxSampledStaleness({ loop, rollout }: Pick<RunConfig, "loop" | "rollout">): number {
  if (loop.type === "async") return loop.maxStaleness;
  return rollout.partial ? (loop.maxStaleness ?? MAX_UNCORRECTED) : 0;
}
