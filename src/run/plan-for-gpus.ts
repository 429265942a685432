/** From a run file to its placements on GPUs that need not be in this machine. */
import { isOwnAnchor } from "../training/own-anchor.ts";
import { stepArithmetic } from "./batch-arithmetic.ts";
import { loadRunFile } from "./load-run-file.ts";
import { type ExpectedTokens, type GpuPool, placementLines, planPlacements } from "./plan-placements.ts";
import { checkedRun } from "./prepare-run.ts";

/** Lines for a person: the placements that fit, the fastest first, and how the times were come by. */
export async function planForGpus(
  path: string,
  sets: readonly string[],
  pool: GpuPool,
  tokens: Pick<ExpectedTokens, "promptTokens"> & Partial<ExpectedTokens>,
): Promise<readonly string[]> {
  const { config, recipe, shape, roles } = await checkedRun(await loadRunFile(path), sets, process.env);
  const { numUpdates } = stepArithmetic(config, recipe.numEpochs);
  const expected = { replyTokens: config.rollout.sampling.maxTokens, ...tokens };
  const facts = {
    model: shape,
    isOnGpu: true,
    dtype: config.model.dtype === "float32" ? ("float32" as const) : ("bfloat16" as const),
    needsReference: recipe.needs.includes("referenceLogprobs_BT"),
    needsAnchor: recipe.needs.includes("anchorLogprobs_BT") && !isOwnAnchor(recipe, config.distillation, numUpdates),
    hasCritic: recipe.hasCritic,
    roles,
  };
  return [
    ...placementLines(planPlacements(config, facts, pool, expected), pool),
    `Times are for trajectories of ${expected.promptTokens} + ${expected.replyTokens} tokens, by figures measured on one H200 in bfloat16; traffic between GPUs has not been measured. Memory per device is a peak.`,
  ];
}
