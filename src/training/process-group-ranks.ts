/**
 * Data-parallel training over a process group: every rank trains the whole model on its share of each batch.
 *
 * What is divided by is counted over all ranks, so the gradients add up to those of one process with the whole batch.
 * That holds for recipes that look no further than a group when they score (grpo, dapo, rloo, ...), since groups are
 * never split; what a recipe takes over the whole batch (whitening, batch-std, self-normalized weights) each rank takes
 * over its own share. The metrics of a step are those of the rank's share too.
 */
import type { Denominators } from "../flow/batch-statistics.ts";
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
    gather: async (own) => (await gatherNumbers(group, packCounts(own), device)).map(unpackCounts),
    sum: async (own) => (await gatherNumbers(group, [own], device)).reduce((total, [value]) => total + (value ?? 0), 0),
    reduceGradients: () => parallel.reduceGradients(),
  };
}

function packCounts({ numTokens, numSequences, numPrompts, tokensPerPrompt }: Denominators): readonly number[] {
  return [numTokens, numSequences, numPrompts, ...[...tokensPerPrompt].flat()];
}

function unpackCounts([numTokens = 0, numSequences = 0, numPrompts = 0, ...pairs]: readonly number[]): Denominators {
  const numPairs = pairs.length / 2;
  const pairAt = (i: number): [number, number] => [pairs[2 * i]!, pairs[2 * i + 1]!];
  const tokensPerPrompt = new Map(Array.from({ length: numPairs }, (_, i) => pairAt(i)));
  return { numTokens, numSequences, numPrompts, tokensPerPrompt };
}

/** The lists of all ranks, which may differ in length. Collectives need equal shapes, so the lengths go first. */
async function gatherNumbers(
  group: ProcessGroup,
  values: readonly number[],
  device: Device,
): Promise<readonly (readonly number[])[]> {
  const lengths = (await gatherEqual(group, [values.length], device)).map(([length]) => length ?? 0);
  const padded = [...values, ...new Array<number>(Math.max(...lengths) - values.length).fill(0)];
  const gathered = await gatherEqual(group, padded, device);
  return gathered.map((list, rank) => list.slice(0, lengths[rank]));
}

async function gatherEqual(
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
