/** An engine, or a rank of one, in the group through which a trainer sends weights. */
import type { Backend, ProcessGroup } from "../torch/distributed/process-group.ts";
import { joinGroup, openStore } from "../torch/distributed/rendezvous.ts";
import { receiveWeights } from "../weight-sync/broadcast-sync.ts";

/** Where the owner and those that have one part of the model meet. */
export interface WeightGroup {
  readonly port: number;
  readonly name: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly backend: Backend;
  readonly timeoutMs: number;
}

export class WeightMember {
  readonly #device: string;
  #group: ProcessGroup | null = null;

  /** @param device where the weights are wanted */
  constructor(device = "cpu") {
    this.#device = device;
  }

  /** Resolves when all members are there. Leaves the group that it was in. */
  async join({ port, ...membership }: WeightGroup): Promise<void> {
    this.leave();
    const store = await openStore({ type: "tcp", host: "127.0.0.1", port, isServer: false });
    this.#group = await joinGroup({ store, ...membership, device: this.#device });
    store.dispose();
  }

  /** Takes the version that the owner sends next. */
  async receive(target: Parameters<typeof receiveWeights>[1]): Promise<void> {
    await receiveWeights(this.#group!, target, this.#device);
  }

  leave(): void {
    this.#group?.dispose();
    this.#group = null;
  }
}
