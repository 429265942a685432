/** The thread of a reward of the run file: it scores what its owner asks for. What it returns is checked here, before it crosses. */
import { guardThread } from "../workers/guard-thread.ts";
import { hostInThread } from "../workers/host-in-thread.ts";
import type { Reward } from "./reward.ts";
import { expectScore } from "./reward-failure.ts";
import type { RewardThreadHost, RewardThreadSource } from "./thread-host.ts";

async function openReward({ module, exportName, options }: RewardThreadSource): Promise<RewardThreadHost> {
  const exports = (await guard.load(module)) as Record<string, (options: unknown) => Promise<Reward>>;
  const reward = await exports[exportName]!(options);
  return {
    score: async (number, input, signal) =>
      expectScore(reward.name, await guard.call(number, () => reward.score(input, signal))),
    ping: async () => {},
    listen: (report) => guard.listen(report),
    close: async () => void (await reward.close?.()),
  };
}

const guard = guardThread();
await hostInThread(openReward, { wrap: guard.wrap });
