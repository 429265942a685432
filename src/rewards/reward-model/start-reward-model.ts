/** Starts a reward model in a worker of its own, so that the event loop stays free while it computes. */
import { RerollError } from "../../errors/reroll-error.ts";
import type { Start } from "../../workers/start.ts";
import { startInThread } from "../../workers/start-in-thread.ts";
import type { RewardModelHost, RewardModelSource } from "./reward-model-host.ts";

/** Resolves when the model is loaded. Default: in a thread. */
export async function startRewardModel(
  source: RewardModelSource,
  start: Start = startInThread,
): Promise<RewardModelHost> {
  const lost = (how: string) => new RerollError("REWARD_CRASHED", `The worker of the reward model ${how}.`);
  const worker = start<RewardModelHost>(new URL("reward-model-worker", import.meta.url), source, { lost });
  await worker.ready;
  return worker.ask;
}
