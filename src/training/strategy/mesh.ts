/**
 * The ranks of a trainer as a grid: rows of a batch go to different shares; the ranks of a share split each layer, the tokens of each
 * pass, or the layers between them.
 */
import type { SplitCounts } from "../../models/causal-lm/model-spread.ts";
import { Collective } from "../../torch/distributed/collective.ts";
import type { ProcessGroup } from "../../torch/distributed/process-group.ts";
import { joinGroup, openStore } from "../../torch/distributed/rendezvous.ts";
import { Stages } from "../../torch/distributed/stages.ts";
import type { Parameter } from "../../torch/nn/module.ts";

/** The place of a rank among the others, and the store where they meet. */
export interface RankSource {
  readonly rank: number;
  readonly numRanks: number;
  readonly port: number;
  /** The machine of the store. Default: this one. */
  readonly host?: string;
  /** Where ranks on other machines reach this one. Absent: all are on this machine. */
  readonly address?: string;
  /** Whether several ranks have the same GPU. They then speak through host memory. */
  readonly sharesDevice?: boolean;
}

/** The groups that one rank belongs to. One that would have a single member is null. */
export interface Mesh {
  readonly world: ProcessGroup | null;
  /** One rank of every share, at the same place within it. */
  readonly shares: ProcessGroup | null;
  /** The ranks that have the same weights. */
  readonly replicas: ProcessGroup | null;
  readonly tensor: Collective;
  readonly context: Collective;
  /** The shares that have some of the experts each. */
  readonly expert: Collective;
  /** The ranks that have the same experts. */
  readonly expertReplicas: ProcessGroup | null;
  readonly stages: Stages;
  /** The ranks of the first and the last stage that have the same weights; null on those between. */
  readonly endReplicas: ProcessGroup | null;
}

/** The ranks that have the same values of a parameter. */
export function replicasOf(
  { replicas, expert, expertReplicas, endReplicas }: Mesh,
  { shard, isAtBothEnds }: Parameter,
): ProcessGroup | null {
  if (isAtBothEnds) return endReplicas;
  return shard !== null && shard.ranks === expert ? expertReplicas : replicas;
}

export const meshOfOne: Mesh = {
  world: null,
  shares: null,
  replicas: null,
  tensor: Collective.alone,
  context: Collective.alone,
  expert: Collective.alone,
  expertReplicas: null,
  stages: Stages.alone,
  endReplicas: null,
};

/**
 * Meets the other ranks. Neighbors split every layer; the next further apart split tokens; those beyond have rows of their own; the furthest
 * apart have other layers.
 */
export async function joinMesh(
  { rank, numRanks, port, host = "127.0.0.1", address, sharesDevice = false }: RankSource,
  device: string,
  { tensor, context, expert, pipeline }: SplitCounts,
): Promise<Mesh> {
  const store = await openStore({ type: "tcp", host, port, isServer: false });
  const backend = device.startsWith("cuda") && !sharesDevice ? "nccl" : "gloo";
  const listenAt = address !== undefined && { listenAt: { host: address } };
  const numShares = numRanks / (tensor * context * pipeline);
  const t = rank % tensor;
  const c = Math.floor(rank / tensor) % context;
  const d = Math.floor(rank / (tensor * context)) % numShares;
  const p = Math.floor(rank / (tensor * context * numShares));
  const join = async (name: string, index: number, worldSize: number) =>
    worldSize === 1 ? null : joinGroup({ store, backend, rank: index, worldSize, name, device, ...listenAt });
  const world = await join("world", rank, numRanks);
  if (tensor * context * expert * pipeline === 1) return { ...meshOfOne, world, shares: world, replicas: world };
  // Where each rank has rows of its own, all have the same weights but for experts.
  const all = numShares === numRanks ? world : null;
  const numReplicas = numShares * context;
  const replica = d * context + c;
  const mesh: Mesh = {
    ...meshOfOne,
    world,
    shares: all ?? (await join(`shares-${p}-${c}-${t}`, d, numShares)),
    replicas: all ?? (await join(`replicas-${p}-${t}`, replica, numReplicas)),
    tensor: new Collective(await join(`tensor-${p}-${d}-${c}`, t, tensor)),
    context: new Collective(await join(`context-${p}-${d}-${t}`, c, context)),
    ...(pipeline > 1 && {
      stages: new Stages(
        new Collective(await join(`stages-${d}-${c}-${t}`, p, pipeline)),
        new Collective(await join(`stages-back-${d}-${c}-${t}`, p, pipeline)),
      ),
    }),
  };
  const end = p === 0 ? 0 : p === pipeline - 1 ? 1 : null;
  const [e, block] = [d % expert, Math.floor(d / expert)];
  return {
    ...mesh,
    ...(pipeline > 1 &&
      end !== null && { endReplicas: await join(`ends-${t}`, end * numReplicas + replica, 2 * numReplicas) }),
    ...(expert > 1 && {
      expert: new Collective(await join(`expert-${p}-${block}-${c}-${t}`, e, expert)),
      expertReplicas: await join(`expert-replicas-${p}-${e}-${t}`, block * context + c, numReplicas / expert),
    }),
  };
}
