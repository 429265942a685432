/** How the ranks of a split engine meet, and which part of the model each has. */
import type { ModelSpread } from "../../../models/causal-lm/model-spread.ts";
import { wholeModel } from "../../../models/causal-lm/model-spread.ts";
import { Collective } from "../../../torch/distributed/collective.ts";
import { joinGroup, openStore } from "../../../torch/distributed/rendezvous.ts";

/** How a model is split over the ranks of an engine. Both counts are the number of ranks, or 1. */
export interface EngineSplit {
  /** Ranks that split heads, MLPs, experts and the vocabulary. */
  readonly tensor: number;
  /** Ranks that have some of the experts each. */
  readonly expert: number;
  /** The device of each rank. Ranks that share a GPU speak through host memory. */
  readonly devices: readonly string[];
}

/** The time that ranks may take to meet, and that each may wait for the others within a step. */
const TIMEOUT_MS = 120_000;

/** A rank among the others. */
export interface JoinedRank {
  readonly spread: ModelSpread;
  /** The ranks, for numbers in host memory. */
  readonly plans: Collective;
  /** Leaves the groups: what others still wait for fails. */
  dispose(): void;
}

/** Resolves when all ranks are there. */
export async function joinRanks(
  { tensor, expert, devices }: EngineSplit,
  rank: number,
  port: number,
): Promise<JoinedRank> {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port, isServer: false, timeoutMs: TIMEOUT_MS });
  const device = devices[rank]!;
  const hasOwnGpu = devices.every((one) => one.startsWith("cuda")) && new Set(devices).size === devices.length;
  const member = { store, rank, worldSize: devices.length, timeoutMs: TIMEOUT_MS };
  const hosts = await joinGroup({ ...member, name: "hosts", backend: "gloo" });
  const group = hasOwnGpu ? await joinGroup({ ...member, name: "devices", backend: "nccl", device }) : hosts;
  store.dispose();
  return {
    plans: new Collective(hosts),
    spread: {
      ...wholeModel,
      // Two objects, since a parameter's ranks say in which of both ways it is split.
      ...(tensor > 1 && { tensor: new Collective(group) }),
      ...(expert > 1 && { expert: new Collective(group) }),
      sharesTokens: true,
    },
    dispose: () => {
      group.dispose();
      if (hosts !== group) hosts.dispose();
    },
  };
}
