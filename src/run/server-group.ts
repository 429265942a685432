/**
 * The process group through which servers elsewhere get weights: the run is rank 0 and sends, every rank of every server receives.
 *
 * The group is made at the first publication, and anew whenever its members change or one of them has come back. Waits for: servers to join,
 * and each weight to be received, `STALL_MS` each.
 */
import { randomUUID } from "node:crypto";
import { RerollError } from "../errors/reroll-error.ts";
import { NCCL_ID_KEY, pickleNcclId } from "../generation/remote/vllm-pickles.ts";
import { noGrad } from "../torch/autograd.ts";
import { cudaSynchronize } from "../torch/cuda.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import { joinGroup, openStore, pythonGroupPrefix, type Store } from "../torch/distributed/rendezvous.ts";
import { bytesOf } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Trainer } from "../training/trainer.ts";
import type { BroadcastOptions } from "./remote-options.ts";
import { answered, handToServers, type SendingLine, STALL_MS, type Transport, within } from "./sent-weights.ts";

interface ServerGroupParts extends BroadcastOptions {
  readonly backend: "nccl" | "gloo";
  readonly device: string;
}

type Engines = readonly SendingLine["seat"]["engine"][];

export class ServerGroup implements Transport {
  readonly #parts: ServerGroupParts;
  /** Who was told to join, under which name. They have not left yet, whatever became of the group. */
  #joined: { readonly name: string; readonly members: readonly SendingLine[]; readonly engines: Engines } | null = null;
  #stores: readonly Store[] = [];
  #group: ProcessGroup | null = null;

  constructor(parts: ServerGroupParts) {
    this.#parts = parts;
  }

  async send(trainer: Trainer, version: number, members: readonly SendingLine[]): Promise<number> {
    const group = await this.#groupOf(members);
    return trainer.withWeights(async (weights) => {
      const facts = [...weights].map(([name, { dtype, shape }]) => ({ name, dtype, shape: [...shape] }));
      await handToServers(members, version, async (announced) => {
        const waiting = new Set(members.map(({ http }) => http.url));
        const received = members.map(async ({ http, routes }, i) => {
          await routes.group!.receive(http, group.name, facts, announced[i]!);
          waiting.delete(http.url);
        });
        const sent = broadcastAll(group, [...weights.values()]).catch((cause: unknown) => {
          throw notReceived(version, waiting, cause);
        });
        await Promise.all([
          // One that does not receive would let the broadcast wait for its whole limit: its refusal ends it.
          ...received,
          ...received.map((one, i) => sent.then(() => answered(members[i]!.http, `load version ${version}`, one))),
        ]);
      });
      const numBytes = [...weights.values()].reduce((sum, { numel, dtype }) => sum + numel * bytesOf(dtype), 0);
      return numBytes * (group.worldSize - 1);
    });
  }

  reset(): void {
    this.#group?.dispose();
    this.#group = null;
    for (const store of this.#stores) store.dispose();
    this.#stores = [];
  }

  /** Leaves the group, as servers do that are still there: they keep what they are not told to give up. */
  async close(): Promise<void> {
    this.reset();
    if (this.#joined === null) return;
    const { name, members } = this.#joined;
    this.#joined = null;
    await Promise.allSettled(
      members
        .filter(({ weights, seat }) => !weights.hasEnded && seat.engine !== null)
        .map(async ({ http, routes }) => {
          await answered(http, "leave the group", routes.group!.leave?.(http, name) ?? Promise.resolve());
        }),
    );
  }

  async #groupOf(members: readonly SendingLine[]): Promise<ProcessGroup> {
    // Engines and not servers: one that was lost and is back may have started again, and knows of no group.
    const engines = members.map(({ seat }) => seat.engine);
    const joined = this.#joined?.engines ?? [];
    const isSame = engines.length === joined.length && engines.every((one, i) => one === joined[i]);
    const haveStayed = members.every(({ weights }) => !weights.hasEnded);
    if (this.#group !== null && isSame && haveStayed) return this.#group;
    await this.close();
    const { host, port, group, backend } = this.#parts;
    const numRanks = await Promise.all(
      members.map(({ http, routes }) => answered(http, "say its number of ranks", routes.group!.numRanks(http))),
    );
    const worldSize = numRanks.reduce((sum, one) => sum + one, 1);
    // Python refuses a name that was ever used in its process, also by a run before this one.
    const name = `${group}-${randomUUID().slice(0, 8)}`;
    const store = await openStore({ type: "tcp", host, port, isServer: true, timeoutMs: STALL_MS });
    this.#stores = [store];
    this.#joined = { name, members, engines };
    const own = this.#join(members[0]!, store, { name, backend, worldSize });
    const joining = members.map(({ http, routes }, i) => {
      const rankOffset = numRanks.slice(0, i).reduce((sum, one) => sum + one, 1);
      const place = { name, host, port: store.port!, backend, rankOffset, worldSize };
      return answered(http, `join the group at ${host}:${store.port}`, routes.group!.join(http, place));
    });
    const urls = members.map(({ http }) => http.url).join(", ");
    // NCCL itself waits for ever for a rank that does not come; vLLM says that it has joined where it could not load NCCL at all.
    const [made] = await Promise.all([
      within(
        own,
        `${urls} and the trainer have not connected by ${backend} within ${STALL_MS / 1000} s. Look for NCCL in the servers' logs; they must reach ${host}:${store.port} and the trainer's other ports. engine.remote.weights "files" needs none of this.`,
      ).catch((cause: unknown) => {
        throw sharedDevice(cause, urls) ?? cause;
      }),
      ...joining,
    ]);
    this.#group = made;
    return made;
  }

  /** The run's own place in the group. */
  async #join(
    { routes }: SendingLine,
    store: Store,
    membership: { readonly name: string; readonly backend: "nccl" | "gloo"; readonly worldSize: number },
  ): Promise<ProcessGroup> {
    const { host, device } = this.#parts;
    const own = { ...membership, rank: 0, timeoutMs: STALL_MS, listenAt: { host }, device };
    if (routes.group!.meets === "c10d") {
      const prefix = pythonGroupPrefix(membership.name, membership.backend);
      return joinGroup({ ...own, store, foreign: { prefix, isLazy: true } });
    }
    // libtorch makes an id of NCCL and leaves it in the store that it is given, under the number of the communicator.
    const memory = await openStore({ type: "local" });
    this.#stores = [...this.#stores, memory];
    const joining = joinGroup({ ...own, store: memory, foreign: { prefix: membership.name } });
    joining.catch(() => {});
    const id = await Promise.race([memory.get(`${membership.name}/0`, STALL_MS), joining.then(() => null)]);
    if (id !== null) await store.set(NCCL_ID_KEY, pickleNcclId(id));
    return joining;
  }
}

/** Broadcasts that are on their way at the same time: each waits for both sides, and the next need not wait for that. */
const NUM_IN_FLIGHT = 16;

/** In this order, as servers receive them. */
async function broadcastAll(group: ProcessGroup, tensors: readonly Tensor[]): Promise<void> {
  // Threads of the group's own send what was computed on streams of this one.
  if (group.backend === "nccl") cudaSynchronize();
  const inFlight: Promise<void>[] = [];
  for (const one of tensors) {
    if (inFlight.length >= NUM_IN_FLIGHT) await inFlight.shift();
    const sent = keep(noGrad(() => tensorScope(() => one.detach().contiguous().toDevice(group.deviceFor(one)))));
    const sending = group.broadcast(sent, 0).finally(() => sent.dispose());
    // Whoever waits for it is told; the ones before it may fail first.
    sending.catch(() => {});
    inFlight.push(sending);
  }
  await Promise.all(inFlight);
}

function notReceived(version: number, waiting: ReadonlySet<string>, cause: unknown): RerollError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new RerollError(
    "SYNC_FAILED",
    `${[...waiting].join(", ")} did not receive version ${version} of the weights: ${reason} Look at the log of the server.`,
    { version },
    { cause },
  );
}

/** What NCCL calls an invalid usage: two ranks on one device. */
function sharedDevice(cause: unknown, urls: string): RerollError | null {
  const reason = cause instanceof Error ? cause.message : "";
  if (!/invalid usage|uplicate GPU/.test(reason)) return null;
  return new RerollError(
    "INVALID_OPTION",
    `engine.remote.weights is "broadcast", and NCCL refuses the group, as it does where two ranks share a GPU: the trainer and ${urls}. Give the server another GPU, or set engine.remote.weights to "same-gpu" (vLLM) or "files".`,
    {},
    { cause },
  );
}
