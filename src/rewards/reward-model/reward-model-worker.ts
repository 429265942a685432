/** The thread of a reward model: it renders conversations, gathers them into batches and runs the model. */
import { hostInThread } from "../../workers/host-in-thread.ts";
import { loadRewardModel } from "./load-reward-model.ts";
import { createModelScorer } from "./model-scorer.ts";
import type { RewardModelHost, RewardModelSource } from "./reward-model-host.ts";

async function openModel({ path, device, dtype, ...batching }: RewardModelSource): Promise<RewardModelHost> {
  return createModelScorer(await loadRewardModel(path, dtype === undefined ? { device } : { device, dtype }), batching);
}

await hostInThread(openModel);
