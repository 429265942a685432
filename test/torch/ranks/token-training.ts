/**
 * Steps of a token trainer whose work is shared with another rank, every recipe in the way that is drawn for it. Reports the weights after
 * them, the metrics of each, and how many updates there were.
 */
import type { Metrics } from "../../../src/flow/metrics.ts";
import { Collective } from "../../../src/torch/distributed/collective.ts";
import type { ProcessGroup } from "../../../src/torch/distributed/process-group.ts";
import type { NamedParameters } from "../../../src/torch/optim/parameter-group.ts";
import { createProcessGroupRanks } from "../../../src/training/process-group-ranks.ts";
import { type Mesh, meshOfOne } from "../../../src/training/strategy/mesh.ts";
import { spreadStrategy } from "../../../src/training/strategy/spread-strategy.ts";
import type { StrategyBuilder } from "../../../src/training/strategy/strategy.ts";
import {
  batchOf,
  type TrainingCase,
  type TwoRanks,
  trainerOf,
  trainingCases,
  weightsOf,
} from "../../training/token-batches.ts";
import { joinTestGroup, leave, rank, report } from "./rank.ts";

const group = await joinTestGroup(60_000);
for (const one of trainingCases) {
  // Ranks start apart: the weights of rank 0 must win. Where each has a part of its own, nobody does.
  const seed = /tensor|experts/.test(one.spread) ? 1 : 1 + rank;
  const join = (parameters: NamedParameters) => createProcessGroupRanks(group, parameters);
  const { model, trainer } = await trainerOf(one, strategyOf(one), seed, one.spread === "group" ? join : undefined);
  let numUpdates = 0;
  const metrics: Metrics[] = [];
  for (let step = 0; step < 3; step++) {
    const done = await trainer.step(batchOf(one.batch, step));
    numUpdates += done.numUpdates;
    metrics.push(done.metrics);
  }
  report({ weights: weightsOf(model), metrics, numUpdates });
}
leave();

function strategyOf({ spread }: TrainingCase): StrategyBuilder {
  const stage = Number(/zero (\d)/.exec(spread)?.[1] ?? (spread === "offload" ? 1 : 0)) as 0 | 1 | 2 | 3;
  const offload = spread === "offload" ? ("optimizer" as const) : ("none" as const);
  return spreadStrategy(meshOf(group, spread), { zero: stage, offload }, "cpu");
}

function meshOf(world: ProcessGroup, spread: TwoRanks): Mesh {
  const others = new Collective(world);
  if (spread === "group") return meshOfOne;
  if (spread === "tensor") return { ...meshOfOne, world, tensor: others };
  if (spread === "context") return { ...meshOfOne, world, replicas: world, context: others };
  const rows = { ...meshOfOne, world, shares: world, replicas: world };
  return spread.startsWith("experts") ? { ...rows, expert: others } : rows;
}
