/**
 * The ranks of a trainer as a grid: rows of a batch go to different shares; the ranks of a share split each layer, or the tokens of each
 * pass, between them.
 */
import { Collective } from "../../torch/distributed/collective.ts";
import type { ProcessGroup } from "../../torch/distributed/process-group.ts";
import { joinGroup, openStore } from "../../torch/distributed/rendezvous.ts";
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
}

/** The ranks that have the same values of a parameter. */
export function replicasOf({ replicas, expert, expertReplicas }: Mesh, { shard }: Parameter): ProcessGroup | null {
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
};

/** Meets the other ranks. Neighbors split layers; the next further apart split tokens; the furthest apart have rows of their own. */
export async function joinMesh(
  { rank, numRanks, port, host = "127.0.0.1", address, sharesDevice = false }: RankSource,
  device: string,
  { tensor, context, expert }: { readonly tensor: number; readonly context: number; readonly expert: number },
): Promise<Mesh> {
  const store = await openStore({ type: "tcp", host, port, isServer: false });
  const backend = device.startsWith("cuda") && !sharesDevice ? "nccl" : "gloo";
  const listenAt = address !== undefined && { listenAt: { host: address } };
  const t = rank % tensor;
  const c = Math.floor(rank / tensor) % context;
  const d = Math.floor(rank / (tensor * context));
  const join = async (name: string, index: number, worldSize: number) =>
    worldSize === 1 ? null : joinGroup({ store, backend, rank: index, worldSize, name, device, ...listenAt });
  const numShares = numRanks / (tensor * context);
  const world = await join("world", rank, numRanks);
  const withExperts = async (mesh: Mesh): Promise<Mesh> => {
    if (expert === 1) return mesh;
    const [e, block] = [d % expert, Math.floor(d / expert)];
    const others = (numShares / expert) * context;
    return {
      ...mesh,
      expert: new Collective(await join(`expert-${block}-${c}-${t}`, e, expert)),
      expertReplicas: await join(`expert-replicas-${e}-${t}`, block * context + c, others),
    };
  };
  if (tensor * context === 1) return withExperts({ ...meshOfOne, world, shares: world, replicas: world });
  return withExperts({
    ...meshOfOne,
    world,
    shares: await join(`shares-${c}-${t}`, d, numShares),
    replicas: await join(`replicas-${t}`, d * context + c, numShares * context),
    tensor: new Collective(await join(`tensor-${d}-${c}`, t, tensor)),
    context: new Collective(await join(`context-${d}-${t}`, c, context)),
  });
}
