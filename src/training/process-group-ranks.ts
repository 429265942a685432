/**
 * Data-parallel training over a process group: every rank has the whole model and the whole batch, and trains on its share of
 * the rows. The gradients add up to those of one process.
 */
import { DataParallel } from "../torch/distributed/data-parallel.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import type { NamedParameters } from "../torch/optim/parameter-group.ts";
import { alone } from "./strategy/alone.ts";
import { exchangeData } from "./strategy/exchange-data.ts";
import type { Strategy } from "./strategy/strategy.ts";

/**
 * Joins the ranks of a group; call it on all of them. All get rank 0's values of the parameters, which are those of the
 * model and, where there is one, of the critic, under equal names in equal order.
 */
export async function createProcessGroupRanks(group: ProcessGroup, parameters: NamedParameters): Promise<Strategy> {
  const parallel = await DataParallel.create({ group, parameters });
  const device = parameters.values().next().value?.device ?? "cpu";
  return {
    ...alone,
    rank: group.rank,
    numRanks: group.worldSize,
    gather: (own) => group.allGather(own),
    exchange: (own) => exchangeData(group, own, device),
    agree: async (own) => (await exchangeData(group, own, device)).every(Boolean),
    numPasses: (counts) => counts[group.rank]!,
    reduceGradients: () => parallel.reduceGradients(),
  };
}
