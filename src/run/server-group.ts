/**
 * Servers elsewhere, and the group through which they get weights: the run is rank 0 and sends, every rank of every server receives.
 *
 * The group is made at the first publication, and anew whenever its members change. A server that is lost takes nobody with it: the others form
 * a new group and are sent the same version again. One that comes back serves from the next version.
 */
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { HttpClient } from "../generation/remote/http-client.ts";
import { Lifeline } from "../generation/remote/lifeline.ts";
import { NCCL_ID_KEY, pickleNcclId } from "../generation/remote/pickle-nccl-id.ts";
import type { GivenWeights } from "../generation/remote/remote-weights.ts";
import { type AnnouncedWeights, askRoute, type WeightRoutes } from "../generation/remote/weight-routes.ts";
import { noGrad } from "../torch/autograd.ts";
import { cudaSynchronize } from "../torch/cuda.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import { joinGroup, openStore, pythonGroupPrefix, type Store } from "../torch/distributed/rendezvous.ts";
import { bytesOf } from "../torch/dtype.ts";
import { keep, tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import type { BroadcastOptions } from "./remote-options.ts";

/** The time that servers may take to join, and each broadcast. */
const TIMEOUT_MS = 300_000;

/** A server of the group, as the group speaks to it. */
interface GroupServer {
  readonly http: HttpClient;
  readonly routes: WeightRoutes;
  readonly seat: Seat;
  readonly weights: BroadcastWeights;
}

/** What a server was sent last. It cannot be sent again before the next publication, since the trainer lends weights only then. */
export class BroadcastWeights implements GivenWeights {
  readonly #run: string;
  readonly #url: string;
  readonly adapter = undefined;
  announced: AnnouncedWeights | null = null;
  numLoads = 0;
  #line: Lifeline | null = null;

  constructor(run: string, url: string) {
    this.#run = run;
    this.#url = url;
  }

  get isLost(): boolean {
    return this.#line?.isCut ?? false;
  }

  /** What the server is about to be sent. One that ends from now on is noticed, where it does not itself say whose weights it has. */
  async begin(version: number, tellsRun: boolean): Promise<AnnouncedWeights> {
    if (!tellsRun && (this.#line === null || this.#line.isCut)) this.#line = await Lifeline.open(this.#url);
    return { run: this.#run, version };
  }

  took(weights: AnnouncedWeights): void {
    this.announced = weights;
    this.numLoads++;
  }

  async restore(numLoads = this.numLoads): Promise<void> {
    if (numLoads !== this.numLoads) return;
    // As of a server that does not answer: its requests go on elsewhere.
    throw new RerollError(
      "REMOTE_UNAVAILABLE",
      `${this.#url} has started again and lost the weights of this run. It serves from the next version on.`,
    );
  }

  close(): void {
    this.#line?.close();
  }
}

interface ServerGroupParts extends BroadcastOptions {
  readonly backend: "nccl" | "gloo";
  readonly device: string;
  readonly clock: Clock;
}

export class ServerGroup {
  readonly #servers: readonly GroupServer[];
  readonly #parts: ServerGroupParts;
  #members: readonly GroupServer[] = [];
  #stores: readonly Store[] = [];
  #group: ProcessGroup | null = null;
  #numGroups = 0;

  constructor(servers: readonly GroupServer[], parts: ServerGroupParts) {
    this.#servers = servers;
    this.#parts = parts;
  }

  syncFrom(trainer: Trainer): WeightSync {
    return { publish: (version) => this.#publish(trainer, version) };
  }

  close(): void {
    this.#leave();
    for (const { weights } of this.#servers) weights.close();
  }

  async #publish(trainer: Trainer, version: number): Promise<Metrics> {
    const startedMs = this.#parts.clock();
    for (;;) {
      const members = this.#servers.filter(({ seat }) => seat.engine !== null);
      if (members.length === 0) return { "sync/ms": 0, "sync/bytes": 0 };
      try {
        const numBytes = await this.#send(trainer, version, members);
        return { "sync/ms": this.#parts.clock() - startedMs, "sync/bytes": numBytes };
      } catch (cause) {
        this.#leave();
        await Promise.all(members.map(loseIfGone));
        if (members.every(({ seat }) => seat.engine !== null)) throw cause;
      }
    }
  }

  /** Returns how many bytes were received in all. */
  async #send(trainer: Trainer, version: number, members: readonly GroupServer[]): Promise<number> {
    const group = await this.#groupOf(members);
    const announced = await Promise.all(members.map(({ weights, routes }) => weights.begin(version, routes.tellsRun)));
    return trainer.withWeights(async (weights) => {
      const facts = [...weights].map(([name, { dtype, shape }]) => ({ name, dtype, shape: [...shape] }));
      await Promise.all(members.map(({ http, routes }) => routes.group!.begin(http)));
      const received = members.map(({ http, routes }, i) =>
        routes.group!.receive(http, group.name, facts, announced[i]!),
      );
      // One that does not receive lets the broadcast wait for ever: its refusal ends it.
      await Promise.all([broadcastAll(group, [...weights.values()]), ...received]);
      await Promise.all(
        members.map(({ http, routes, seat, weights: given }, i) =>
          seat.give(async () => {
            await routes.group!.end(http, announced[i]!);
            given.took(announced[i]!);
          }),
        ),
      );
      const numBytes = [...weights.values()].reduce((sum, { numel, dtype }) => sum + numel * bytesOf(dtype), 0);
      return numBytes * (group.worldSize - 1);
    });
  }

  async #groupOf(members: readonly GroupServer[]): Promise<ProcessGroup> {
    const isSame = members.length === this.#members.length && members.every((one, i) => one === this.#members[i]);
    const haveStayed = members.every(({ weights }) => !weights.isLost);
    if (this.#group !== null && isSame && haveStayed) return this.#group;
    this.#leave();
    const { host, port, group, backend } = this.#parts;
    const numRanks = await Promise.all(members.map(({ http, routes }) => routes.group!.numRanks(http)));
    const worldSize = numRanks.reduce((sum, one) => sum + one, 1);
    const name = `${group}-${this.#numGroups++}`;
    const store = await openStore({ type: "tcp", host, port, isServer: true, timeoutMs: TIMEOUT_MS });
    this.#stores = [store];
    const own = this.#join(members[0]!, store, { name, backend, worldSize });
    own.catch(() => {});
    // The servers' answers first: they end at once where one refuses, which the run's own waiting does not notice.
    await Promise.all(
      members.map(({ http, routes }, i) => {
        const rankOffset = numRanks.slice(0, i).reduce((sum, one) => sum + one, 1);
        return routes.group!.join(http, { name, host, port: store.port!, backend, rankOffset, worldSize });
      }),
    );
    this.#group = await own;
    this.#members = members;
    return this.#group;
  }

  /** The run's own place in the group. */
  async #join(
    { routes }: GroupServer,
    store: Store,
    membership: { readonly name: string; readonly backend: "nccl" | "gloo"; readonly worldSize: number },
  ): Promise<ProcessGroup> {
    const { host, device } = this.#parts;
    const own = { ...membership, rank: 0, timeoutMs: TIMEOUT_MS, listenAt: { host }, device };
    if (routes.group!.meets === "c10d") {
      const prefix = pythonGroupPrefix(membership.name, membership.backend);
      return joinGroup({ ...own, store, foreign: { prefix, isLazy: true } });
    }
    // libtorch makes an id of NCCL and leaves it in the store that it is given, under the number of the communicator.
    const memory = await openStore({ type: "local" });
    this.#stores = [...this.#stores, memory];
    const joining = joinGroup({ ...own, store: memory, foreign: { prefix: membership.name } });
    joining.catch(() => {});
    const id = await Promise.race([memory.get(`${membership.name}/0`, TIMEOUT_MS), joining.then(() => null)]);
    if (id !== null) await store.set(NCCL_ID_KEY, pickleNcclId(id));
    return joining;
  }

  #leave(): void {
    this.#group?.dispose();
    this.#group = null;
    this.#members = [];
    for (const store of this.#stores) store.dispose();
    this.#stores = [];
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

async function loseIfGone({ seat, http }: GroupServer): Promise<void> {
  await seat.ask(async () => void (await askRoute(http, "/v1/models", { method: "GET" })));
}
