/** What a run samples with, and how it gets new weights: an engine in a thread of this process, or a server elsewhere. */
import { join } from "node:path";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Engine } from "../generation/engine.ts";
import type { Generate } from "../generation/generate.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { connectRemote } from "../generation/remote/connect-remote.ts";
import { connectRemoteWeights } from "../generation/remote/remote-weights.ts";
import type { Trainer } from "../training/trainer.ts";
import { createFileSync } from "../weight-sync/file-sync.ts";
import { createSharedMemorySync } from "../weight-sync/shared-memory-sync.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import type { Placement } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

export interface RunEngine {
  readonly generate: Generate;
  /** The engine itself, where it is in this process. */
  readonly local: Engine | null;
  readonly syncFrom: (trainer: Trainer) => WeightSync;
  /** Sentences about the engine for the person who runs it. */
  readonly statements: readonly string[];
  close(): Promise<void>;
}

interface EnginePlace {
  readonly modelFolder: string;
  readonly runFolder: string;
  readonly placement: Placement;
  readonly clock: Clock;
}

export function openEngine(config: RunConfig, place: EnginePlace): Promise<RunEngine> {
  return config.engine.remote === null ? openLocal(config, place) : openRemote(config.engine.remote, place);
}

async function openLocal(config: RunConfig, { modelFolder, placement, clock }: EnginePlace): Promise<RunEngine> {
  const { maxRunning, maxStepTokens } = config.engine;
  const { contextLength, maxInFlight } = config.rollout;
  const engine = await startThreadedEngine({
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device: placement.device,
    dtype: placement.dtype,
    numThreads: placement.engineThreads,
    options: {
      contextLength,
      maxRunning: maxRunning ?? Math.min(256, maxInFlight),
      maxQueued: Math.max(16_384, 2 * maxInFlight),
      ...(maxStepTokens !== null && { maxStepTokens }),
      seed: config.seed,
      isSteady: true,
    },
  });
  return {
    generate: engine.generate,
    local: engine,
    syncFrom: (trainer) =>
      createSharedMemorySync({ withWeights: (use) => trainer.withWeights(use), engines: [engine], clock }),
    statements: [],
    close: () => engine.close(),
  };
}

type RemoteChoice = NonNullable<RunConfig["engine"]["remote"]>;

async function openRemote({ kind, url, apiKey }: RemoteChoice, { runFolder, clock }: EnginePlace): Promise<RunEngine> {
  if (kind !== "sglang" && kind !== "reroll") {
    throw new RerollError(
      "INVALID_OPTION",
      `engine.remote.kind "${kind}" cannot be given new weights over HTTP. Use "sglang" or "reroll", or leave engine.remote out to sample in this process.`,
    );
  }
  const server = { kind, url: url.reveal(), ...(apiKey !== null && { apiKey: apiKey.reveal() }) };
  let version = 0;
  const remote = await connectRemote({ ...server, version: () => version });
  const weights = connectRemoteWeights(server);
  return {
    generate: remote.generate,
    local: null,
    syncFrom: (trainer) => {
      const saveModel = (folder: string) => trainer.saveMerged(folder);
      const sync = createFileSync({ saveModel, folder: join(runFolder, "weights"), targets: [weights], clock });
      return {
        publish: async (next) => {
          const metrics = await sync.publish(next);
          version = next;
          return metrics;
        },
      };
    },
    statements: remote.missing.map((line) => `${url}: ${line}`),
    close: async () => {
      weights.close();
      remote.close();
    },
  };
}
