/**
 * Every collective of the strategies over NCCL, with one rank, against none: NCCL refuses two ranks on one GPU, so this is what one GPU can show of it.
 *
 * Prints how far weights are apart after three steps of a tiny model.
 * npm run bundle -- bench/gpu/one-rank-nccl.ts && sh pack/run.sh one-rank-nccl
 */
import { Collective } from "../../src/torch/distributed/collective.ts";
import { joinGroup, openStore } from "../../src/torch/distributed/rendezvous.ts";
import { type Mesh, meshOfOne } from "../../src/training/strategy/mesh.ts";
import { spreadStrategy } from "../../src/training/strategy/spread-strategy.ts";
import { batchOf, type TrainingCase, trainerOf, weightsOf } from "../../test/training/token-batches.ts";

const device = "cuda:0";
const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
const group = await joinGroup({ store, backend: "nccl", rank: 0, worldSize: 1, name: "one", device });
const ranks = new Collective(group);
const mesh: Mesh = {
  ...meshOfOne,
  ...{ world: group, shares: group, replicas: group, expertReplicas: group },
  ...{ tensor: ranks, context: ranks, expert: ranks },
};

let worst = 0;
for (const family of ["qwen3", "qwen3_moe"] as const) {
  const one: TrainingCase = {
    ...{ name: family, choice: { type: "grpo" }, minibatchTrajectories: 0, batch: "mixed" },
    ...{ spread: "rows", family },
  };
  const alone = await weightsAfter(one, meshOfOne, 0);
  for (const zero of [0, 1, 2, 3] as const) {
    const apart = largestGap(alone, await weightsAfter(one, mesh, zero));
    worst = Math.max(worst, apart);
    console.log(`${family} zero ${zero} over NCCL with one rank: ${apart.toExponential(1)}`);
  }
}
process.exit(worst < 1e-5 ? 0 : 1);

async function weightsAfter(one: TrainingCase, on: Mesh, zero: 0 | 1 | 2 | 3): Promise<readonly number[]> {
  const { model, trainer } = await trainerOf(one, spreadStrategy(on, { zero, offload: "none" }, device), 1);
  for (let step = 0; step < 3; step++) await trainer.step(batchOf(one.batch, step));
  return weightsOf(model);
}

function largestGap(left: readonly number[], right: readonly number[]): number {
  return left.reduce((most, value, i) => Math.max(most, Math.abs(value - right[i]!)), 0);
}
