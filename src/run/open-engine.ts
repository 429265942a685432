/** What a run samples with, and how it gets new weights: engines of its own, or servers elsewhere, as one pool. */
import type { WorkerFacts, WorkerMemory } from "../flow/worker-facts.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { EnginePool } from "../generation/pool/engine-pool.ts";
import type { Seat } from "../generation/pool/seat.ts";
import type { Trainer } from "../training/trainer.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import type { EngineParts } from "./engine-parts.ts";
import { openLocalEngines } from "./open-local-engines.ts";
import { openRemoteEngines } from "./open-remote-engines.ts";
import { type RunConfig, remoteServers } from "./run-config.ts";

export interface RunEngine {
  /** All engines of the run, as one. */
  readonly pool: ServedEngine;
  readonly syncFrom: (trainer: Trainer) => WeightSync;
  /**
   * Call it before a training step. Engines that read the trainer's own weights draw nothing until the next publication; with `sleeps`, those on its
   * device free their caches.
   */
  rest(sleeps: boolean): Promise<void>;
  /** Each of them, as it is now. */
  workers(): readonly WorkerFacts[];
  /** Sentences about the engines for the person who runs it. */
  readonly statements: readonly string[];
  close(): Promise<void>;
}

export async function openEngine(config: RunConfig, parts: EngineParts): Promise<RunEngine> {
  const servers = remoteServers(config);
  const opened = servers.length === 0 ? openLocalEngines(config, parts) : openRemoteEngines(config, servers, parts);
  const { seats, places, syncFrom, statements, rest, close } = await opened;
  const pool = new EnginePool(seats, { seed: config.seed });
  return {
    pool,
    syncFrom: (trainer) => {
      const sync = syncFrom(trainer);
      return {
        publish: async (version) => {
          const metrics = await sync.publish(version);
          // Engines that did not take the weights are out of the pool: those that serve all have this version.
          pool.expectServing(version);
          return metrics;
        },
      };
    },
    rest: async (sleeps) => rest?.(sleeps),
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
