/** The process of a rank of a split engine: one that takes its part of the weights from a group that the owner of the engine has joined too. */
import { type EngineRank, HostedRank, type RankSource } from "../generation/local/split/engine-rank.ts";
import type { WeightCuts } from "../models/causal-lm/weight-cuts.ts";
import { hostInWorker, leaveSignalsToOwner } from "../workers/host-in-process.ts";
import { type WeightGroup, WeightMember } from "./weight-member.ts";

/** Such a rank, as the first one of its engine calls it. */
export interface EngineRankProcess extends EngineRank {
  /** The part of the model that it has. */
  part(): Promise<WeightCuts>;
  join(group: WeightGroup): Promise<void>;
  /** Takes the version that the owner sends next. The first rank computes nothing meanwhile. */
  receive(): Promise<void>;
}

async function openRank(source: RankSource): Promise<EngineRankProcess> {
  const rank = await HostedRank.open(source);
  const member = new WeightMember(source.device);
  return {
    work: (plan) => rank.work(plan),
    sleep: () => rank.sleep(),
    loadWeights: (folder) => rank.loadWeights(folder),
    stay: () => rank.stay(),
    part: async () => rank.cuts,
    join: (group) => member.join(group),
    receive: () => member.receive(rank),
    close: async () => {
      member.leave();
      await rank.close();
    },
  };
}

leaveSignalsToOwner();
await hostInWorker(openRank);
