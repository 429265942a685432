/**
 * Data-parallel training over a process group: every rank has the whole model and the whole batch, and trains on its share of
 * the rows. The gradients add up to those of one process.
 */
import { deserialize, serialize } from "node:v8";
import { tensor } from "../torch/create.ts";
import { DataParallel } from "../torch/distributed/data-parallel.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import type { Device } from "../torch/dtype.ts";
import { keep } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";

/**
 * Joins the ranks of a group; call it on all of them. All get rank 0's values of the parameters, which are those of the
 * model and, where there is one, of the critic, under equal names in equal order.
 */
export async function createProcessGroupRanks(
  group: ProcessGroup,
  parameters: ReadonlyMap<string, Tensor>,
): Promise<TrainerRanks> {
  const parallel = await DataParallel.create({ group, parameters });
  const device = parameters.values().next().value?.device ?? "cpu";
  return {
    rank: group.rank,
    numRanks: group.worldSize,
    gather: (own) => group.allGather(own),
    exchange: (own) => exchangeData(group, own, device),
    reduceGradients: () => parallel.reduceGradients(),
  };
}

/** The values of all ranks as bytes, which keep NaN. Collectives need equal shapes, so the lengths go first. */
async function exchangeData<Value>(group: ProcessGroup, own: Value, device: Device): Promise<readonly Value[]> {
  const bytes = serialize(own);
  const lengths = (await gatherNumbers(group, [bytes.length], device)).map(([length]) => length ?? 0);
  const padded = [...bytes, ...new Array<number>(Math.max(...lengths) - bytes.length).fill(0)];
  const gathered = await gatherNumbers(group, padded, device);
  return gathered.map((all, rank) => deserialize(Uint8Array.from(all.slice(0, lengths[rank]))) as Value);
}

async function gatherNumbers(
  group: ProcessGroup,
  values: readonly number[],
  device: Device,
): Promise<readonly (readonly number[])[]> {
  const own = keep(tensor(Float64Array.from(values), [values.length], { device }));
  let all: readonly Tensor[] = [];
  try {
    all = await group.allGather(own);
    return all.map((one) => one.toArray());
  } finally {
    for (const one of [own, ...all]) one.dispose();
  }
}
