/** The worker of a reward model: it renders conversations, gathers them into batches and runs the model. */
import { hostInWorker } from "../../workers/host-in-process.ts";
import { loadRewardModel } from "./load-reward-model.ts";
import { createModelScorer } from "./model-scorer.ts";
import type { RewardModelHost, RewardModelSource } from "./reward-model-host.ts";

async function openModel({ path, device, dtype, ...options }: RewardModelSource): Promise<RewardModelHost> {
  const model = await loadRewardModel(path, dtype === undefined ? { device } : { device, dtype });
  // A score then does not depend on what else was asked for at the time, to the last bit: a run can be resumed exactly.
  const batching = device === "cpu" ? { ...options, maxBatchTokens: 1 } : options;
  return createModelScorer(model, batching);
}

await hostInWorker(openModel);
