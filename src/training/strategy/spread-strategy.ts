/** The strategy of several ranks, or of one that keeps things elsewhere: which rank has which rows, weights, gradients and optimizer state. */
import type { CausalLm } from "../../models/causal-lm/causal-lm.ts";
import { isHere, type Parameter } from "../../torch/nn/module.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { exchangeData } from "./exchange-data.ts";
import type { Mesh } from "./mesh.ts";
import type { ParameterSet } from "./parameter-set.ts";
import { runInStages } from "./pipelined-passes.ts";
import { layersWithShardedGradients, shardedLayers } from "./sharded-layers.ts";
import { createUnits, ShardedSet, type ShardedSetOptions } from "./sharded-set.ts";
import { eachPass, type StrategyBuilder } from "./strategy.ts";
import { createWholeSet } from "./whole-set.ts";

export function spreadStrategy(
  mesh: Mesh,
  options: Omit<ShardedSetOptions, "device">,
  device: string,
): StrategyBuilder {
  const { world, shares, tensor, context, expert, stages } = mesh;
  const { zero, offload } = options;
  const sets: ParameterSet[] = [];
  const numPartners = tensor.count * context.count;
  const isSpread = zero > 0 || tensor.count * expert.count * stages.count > 1;
  const setOf = (parameters: readonly Parameter[]) => sets.find((set) => parameters.some((one) => set.has(one)))!;
  const backward = (loss: Tensor) => (numPartners === 1 ? loss : loss.div(numPartners)).backward();
  return {
    rank: shares?.rank ?? 0,
    numRanks: shares?.worldSize ?? 1,
    loadDevice: zero === 3 ? "cpu" : device,
    isFirst: (world?.rank ?? 0) === 0,
    spread: { tensor, context, expert, stages },
    gather: (own) => gatherTensors(shares, own),
    exchange: async (own) => {
      const all = await exchangeData(stages.count === 1 ? shares : world, own, device);
      if (stages.count === 1) return all;
      // Those of the last stage, one of each share: the others saw nothing.
      const numPerStage = all.length / stages.count;
      return all.slice(-numPerStage).filter((_, rank) => rank % numPartners === 0);
    },
    agree: async (own) => (await exchangeData(world, own, device)).every(Boolean),
    numPasses: (counts, pass) => {
      const isTogether = zero === 3 || (zero === 2 && pass === "update") || expert.count > 1;
      return isTogether ? Math.max(...counts) : counts[shares?.rank ?? 0]!;
    },
    seesOutput: stages.isLast,
    tell: (measured) => void stages.ranks.broadcast_(measured, stages.count - 1),
    runPasses: async (passes) =>
      stages.count === 1 ? eachPass(passes, backward) : runInStages(stages, passes, backward),
    backward,
    reduceGradients: async () => {
      for (const set of sets) await set.reduce();
    },
    boundGradients: (parameters, maxNorm) => setOf(parameters).bound(parameters, maxNorm),
    optimize: async (model, named, build) => {
      const parameters = new Map([...named].filter(([, parameter]) => isHere(parameter)));
      const isWhole = zero === 0 && offload === "none";
      const set = isWhole
        ? await createWholeSet(mesh, parameters, build, device)
        : new ShardedSet(mesh, parameters, build, { ...options, device });
      if (set instanceof ShardedSet && zero === 2) model.runner = layersWithShardedGradients(set);
      if (set instanceof ShardedSet && zero === 3) model.runner = shardedLayers(set.units, set);
      sets.push(set);
      return set.optimizer;
    },
    hold: (model: CausalLm) => {
      if (zero < 3) return;
      const units = createUnits(model.namedParameters(), mesh, { ...options, device });
      model.runner = shardedLayers(units, null);
    },
    shard: isSpread ? { index: world?.rank ?? 0, count: world?.worldSize ?? 1 } : { index: 0, count: 1 },
    parts: (optimizer) => sets.find((set) => set.optimizer === optimizer)!.parts(),
    restore: (optimizer, saved) => sets.find((set) => set.optimizer === optimizer)!.restore(saved),
  };
}

/** The tensors of all ranks. Those of a GPU go through host memory where the group is Gloo's. */
async function gatherTensors(group: Mesh["shares"], own: Tensor): Promise<readonly Tensor[]> {
  if (group === null) return [own.clone()];
  if (group.deviceFor(own) === own.device) return group.allGather(own);
  const staged = own.toDevice("cpu");
  const gathered = await group.allGather(staged);
  staged.dispose();
  return gathered.map((one) => {
    const moved = one.toDevice(own.device);
    one.dispose();
    return moved;
  });
}
