/** What a run samples with, and how it gets new weights: engines of its own, or servers elsewhere, as one pool. */
import { setTimeout } from "node:timers/promises";
import type { Metrics } from "../flow/metrics.ts";
import type { WorkerFacts, WorkerMemory } from "../flow/worker-facts.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { EnginePool } from "../generation/pool/engine-pool.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import { inTurn } from "../workers/in-turn.ts";
import type { EngineParts, EngineSync } from "./engine-parts.ts";
import { openLocalEngines } from "./open-local-engines.ts";
import { openRemoteEngines } from "./open-remote-engines.ts";
import { type RunConfig, remoteServers } from "./run-config.ts";

export interface RunEngine {
  /** All engines of the run, as one. */
  readonly pool: ServedEngine;
  readonly syncFrom: (trainer: Trainer) => WeightSync;
  /**
   * Call it before a training step. Engines that take turns with the trainer draw nothing until `goOn`, or until the next publication where they read
   * its own weights; with `sleeps`, those on its device free their caches.
   */
  rest(sleeps: boolean): Promise<void>;
  /** Call it after a training step, with the version of the weights that it has left behind, published or not; null where it failed. */
  goOn(version: number | null): Promise<void>;
  /** Each of them, as it is now. */
  workers(): readonly WorkerFacts[];
  /** Sentences about the engines for the person who runs it. */
  readonly statements: readonly string[];
  close(): Promise<void>;
}

export async function openEngine(config: RunConfig, parts: EngineParts): Promise<RunEngine> {
  const servers = remoteServers(config);
  const opened = servers.length === 0 ? openLocalEngines(config, parts) : openRemoteEngines(config, servers, parts);
  const { seats, places, syncFrom, statements, rest, goOn, close } = await opened;
  const pool = new EnginePool(seats, { seed: config.seed });
  /** The weights that the trainer has; null while it trains. */
  let held: { readonly version: number; readonly isPublished: boolean } | null = null;
  let sync: EngineSync | null = null;
  let hasPublished = false;
  const { asked } = parts;
  // One after another: an engine that comes back is given weights that no step changes in the meantime.
  const turns = inTurn({
    publish: async (version: number) => {
      let metrics: Metrics;
      do {
        if (!(await anyOpen(seats, asked))) return unpublished();
        metrics = await sync!.publish(version);
      } while (areAllGone(seats));
      // Engines that did not take the weights are out of the pool: those that serve all have this version.
      pool.expectServing(version);
      held = { version, isPublished: true };
      hasPublished = true;
      return metrics;
    },
    rest: async (sleeps: boolean) => {
      held = null;
      await rest?.(sleeps);
    },
    goOn: async (version: number | null) => {
      await goOn?.();
      held = version === null ? null : { version, isPublished: false };
    },
    // Where the trainer has gone on since the last publication, the next one waits for replies, which an engine that serves draws: the others can wait for
    // it. Where none serves, they get the weights that the trainer has by now.
    catchUp: async () => {
      if (held === null || (!held.isPublished && isAnyServing())) return;
      await sync?.catchUp?.(held.version);
      held = { ...held, isPublished: isAnyServing() };
    },
  });
  /** The run was asked to stop, and nobody is there to take weights: its step is whole without. Before the first there is none. */
  const unpublished = (): Metrics => {
    if (!hasPublished) throw asked!.reason;
    return {};
  };
  const isAnyServing = () => seats.some(({ isServing }) => isServing);
  // Where the trainer fails, its own calls say so.
  const catchUp = () =>
    void turns
      .catchUp()
      .catch((cause: Error) => parts.report(`An engine that is back got no weights: ${cause.message}`));
  for (const seat of seats) seat.onOutage = catchUp;
  return {
    pool,
    syncFrom: (trainer) => {
      sync = syncFrom(trainer);
      return { publish: turns.publish };
    },
    rest: turns.rest,
    goOn: async (version) => {
      await turns.goOn(version);
      // For engines that were opened again meanwhile.
      if (!isAnyServing()) catchUp();
    },
    workers: () => places.map((place, i) => ({ ...place, ...engineMemory(seats[i]!) })),
    statements,
    close: async () => {
      await pool.close();
      await close?.();
    },
  };
}

function engineMemory({ engine }: Seat): WorkerMemory {
  const { memoryBytes = 0, peakBytes = null } = engine?.status() ?? {};
  return { roles: [{ role: "engine", bytes: memoryBytes, isAsleep: false }], peakBytes };
}

/** Whether every engine was found gone, as those are that ended while nothing was asked of them, and one is expected back: it takes the weights. */
function areAllGone(seats: readonly Seat[]): boolean {
  const isGone = ({ engine, lostBy }: Seat) => engine === null && lostBy !== null && GONE.has(lostBy.code);
  return seats.every(isGone) && seats.some(({ canReturn }) => canReturn);
}

/** What an engine of the run, or a server, is lost by that does not answer at all; others have refused the weights. */
const GONE: ReadonlySet<string> = new Set(["ENGINE_BROKEN", "REMOTE_FAULT", "REMOTE_UNAVAILABLE"]);

/** Where every engine is being opened again, waits for the first of them, or until none is expected any more. False: the run was asked to stop first. */
async function anyOpen(seats: readonly Seat[], asked: AbortSignal | undefined): Promise<boolean> {
  const isHopeful = () => seats.every(({ engine }) => engine === null) && seats.some(({ canReturn }) => canReturn);
  while (isHopeful()) {
    if (asked?.aborted) return false;
    await setTimeout(LOOK_AGAIN_MS);
  }
  return true;
}

const LOOK_AGAIN_MS = 50;
