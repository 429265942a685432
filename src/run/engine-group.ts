/**
 * Engines in processes of their own, and the group through which they get weights: the owner is rank 0 and sends, every engine receives. Where
 * engines are split, there is a group for each part of the model, of the owner and of the ranks that have it.
 *
 * Groups are made anew whenever their members change. When one is lost while weights are on their way, the others have taken none of
 * them; they form new groups and are sent the same version again.
 */
import { setTimeout } from "node:timers/promises";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { type EngineHost, engineLine } from "../generation/local/engine-host.ts";
import { ThreadedEngine } from "../generation/local/threaded-engine.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { ProcessGroup } from "../torch/distributed/process-group.ts";
import { joinGroup, openStore, type Store } from "../torch/distributed/rendezvous.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Trainer } from "../training/trainer.ts";
import { createBroadcastSync, type Receivers } from "../weight-sync/broadcast-sync.ts";
import type { Remote } from "../workers/remote.ts";
import { startInProcess } from "../workers/start-in-process.ts";
import type { EngineSync } from "./engine-parts.ts";
import type { EngineProcess, ProcessSource } from "./engine-process.ts";
import type { WeightGroup } from "./weight-member.ts";

/** The time that engines may take to join, and each transfer of a bucket. */
const TIMEOUT_MS = 120_000;

/** The time that an engine may take to load its model. */
const START_MS = 1_800_000;

/** An engine in a process, and its own side of the weights. */
export interface ProcessEngine extends ServedEngine, Pick<ThreadedEngine, "hold" | "release" | "sleep"> {
  readonly weights: Pick<Remote<EngineProcess>["ask"], "parts" | "join" | "receive">;
}

export async function startEngineProcess(source: ProcessSource): Promise<ProcessEngine> {
  const lost = (how: string) => new RerollError("ENGINE_BROKEN", `The engine's process ${how}.`);
  const { wrap } = engineLine(queueMicrotask);
  const host = startInProcess<EngineProcess>(new URL("engine-process", import.meta.url), source, {
    lost,
    ...(wrap && { wrap }),
  });
  await startedWithin(START_MS, host);
  // Everything but new weights, which come another way, is asked as it is of a thread.
  const engine = new ThreadedEngine(host as unknown as Remote<EngineHost>, await host.ask.describe());
  return {
    generate: engine.generate,
    scorePrompt: engine.scorePrompt,
    abortAll: () => engine.abortAll(),
    status: () => engine.status(),
    hold: () => engine.hold(),
    release: () => engine.release(),
    sleep: () => engine.sleep(),
    close: () => engine.close(),
    weights: host.ask,
  };
}

async function startedWithin(limitMs: number, host: Remote<EngineProcess>): Promise<void> {
  const limit = new AbortController();
  const late = setTimeout(limitMs, undefined, limit).then(() =>
    host.end(new RerollError("ENGINE_BROKEN", `The engine was not there after ${limitMs / 1000} seconds.`)),
  );
  late.catch(() => {});
  await host.ready.finally(() => limit.abort());
}

interface GroupOptions {
  /** Devices of the trainer and of all engines. */
  readonly devices: readonly string[];
  /** Whether whole weights are sent, or the adapters that engines add to those of their files. */
  readonly sent: "merged" | "adapters";
  readonly clock: Clock;
}

export class EngineGroup {
  readonly #seats: readonly Seat<ProcessEngine>[];
  readonly #store: Store;
  readonly #devices: readonly string[];
  readonly #sent: GroupOptions["sent"];
  readonly #clock: Clock;
  #members: readonly ProcessEngine[] = [];
  #receivers: readonly Receivers[] = [];
  #numGroups = 0;

  private constructor(seats: readonly Seat<ProcessEngine>[], store: Store, { devices, sent, clock }: GroupOptions) {
    this.#seats = seats;
    this.#store = store;
    this.#devices = devices;
    this.#sent = sent;
    this.#clock = clock;
  }

  static async open(
    seats: readonly Seat<ProcessEngine>[],
    { devices, sent, clock }: GroupOptions,
  ): Promise<EngineGroup> {
    const store = await openStore({ type: "tcp", host: "127.0.0.1", port: 0, isServer: true });
    return new EngineGroup(seats, store, { devices, sent, clock });
  }

  syncFrom(trainer: Trainer): Required<EngineSync> {
    return {
      publish: (version) => this.#publish(trainer, version, () => true),
      catchUp: async (version) => void (await this.#publish(trainer, version, ({ isServing }) => !isServing)),
    };
  }

  close(): void {
    this.#leave();
    this.#store.dispose();
  }

  #leave(): void {
    for (const { group } of this.#receivers) group.dispose();
    this.#receivers = [];
  }

  async #publish(trainer: Trainer, version: number, isMeant: (seat: Seat<ProcessEngine>) => boolean): Promise<Metrics> {
    for (;;) {
      const seats = this.#seats.filter((seat) => seat.engine !== null && isMeant(seat));
      if (seats.length === 0) return { "sync/ms": 0, "sync/bytes": 0 };
      try {
        return await this.#send(trainer, version, seats);
      } catch (cause) {
        await Promise.all(seats.map(loseIfGone));
        if (seats.every(({ engine }) => engine !== null)) throw cause;
      }
    }
  }

  /** One attempt. Where an engine is lost over it, the others have the weights that they had before. */
  async #send(trainer: Trainer, version: number, seats: readonly Seat<ProcessEngine>[]): Promise<Metrics> {
    let taken: readonly Promise<void>[] = [];
    try {
      const engines = seats.map(({ engine }) => engine!);
      const receivers = await this.#receiversOf(engines);
      taken = engines.map(({ weights }) => weights.receive());
      for (const one of taken) one.catch(() => {});
      const eachWeights = (use: (weights: ReadonlyMap<string, Tensor>) => Promise<void>) =>
        trainer.eachWeights(use, this.#sent);
      const metrics = await createBroadcastSync({ eachWeights, receivers, clock: this.#clock }).publish(version);
      await Promise.all(seats.map((seat, i) => seat.give(() => taken[i]!)));
      return metrics;
    } catch (cause) {
      // What the others still wait for ends with the groups.
      this.#leave();
      const settled = await Promise.allSettled(taken);
      await Promise.all(
        settled.map(async (one, i) => {
          if (one.status === "rejected" && isGone(one.reason)) await seats[i]!.give(() => Promise.reject(one.reason));
        }),
      );
      throw cause;
    }
  }

  async #receiversOf(engines: readonly ProcessEngine[]): Promise<readonly Receivers[]> {
    const isSame = engines.length === this.#members.length && engines.every((one, i) => one === this.#members[i]);
    if (this.#receivers.length > 0 && isSame) return this.#receivers;
    this.#leave();
    this.#members = engines;
    // All engines of a run are split alike.
    const parts = await engines[0]!.weights.parts();
    const groups = parts.map((_, part) => ({
      ...{ name: `weights-${this.#numGroups}-${part}`, worldSize: engines.length + 1, timeoutMs: TIMEOUT_MS },
      backend: canUseNccl(this.#devices) ? ("nccl" as const) : ("gloo" as const),
    }));
    this.#numGroups++;
    const [trainerDevice = "cpu"] = this.#devices;
    const own = this.#joinAll(groups, trainerDevice);
    own.catch(() => {});
    // First, since it ends at once where an engine is gone, which the owner's own waiting does not notice.
    await Promise.all(
      engines.map(({ weights }, i) =>
        weights.join(groups.map((group) => ({ port: this.#store.port!, rank: i + 1, ...group }))),
      ),
    );
    this.#receivers = (await own).map((group, part) => ({ group, cuts: parts[part]! }));
    return this.#receivers;
  }

  /** One after another: all are on one device. */
  async #joinAll(groups: readonly Omit<WeightGroup, "port" | "rank">[], device: string): Promise<ProcessGroup[]> {
    const joined: ProcessGroup[] = [];
    for (const group of groups) joined.push(await joinGroup({ store: this.#store, rank: 0, ...group, device }));
    return joined;
  }
}

/** NCCL wants a GPU of its own for every member. */
function canUseNccl(devices: readonly string[]): boolean {
  return devices.every((device) => device.startsWith("cuda")) && new Set(devices).size === devices.length;
}

/** Whether an engine could not take weights because it is gone, or one of its ranks. */
function isGone(reason: unknown): boolean {
  return reason instanceof RerollError && reason.code === "ENGINE_BROKEN";
}

async function loseIfGone(seat: Seat<ProcessEngine>): Promise<void> {
  const brokenBy = seat.engine?.status().brokenBy;
  if (brokenBy !== undefined) await seat.give(() => Promise.reject(new RerollError("ENGINE_BROKEN", brokenBy)));
}
