/** What a run samples with, and how it gets new weights: an engine in a thread of this process, or a server elsewhere. */
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import type { Clock } from "../flow/clock.ts";
import type { Engine } from "../generation/engine.ts";
import type { Generate } from "../generation/generate.ts";
import { startThreadedEngine } from "../generation/local/threaded-engine.ts";
import { connectRemote } from "../generation/remote/connect-remote.ts";
import { RemoteWeights } from "../generation/remote/remote-weights.ts";
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
  return config.engine.remote === null ? openLocal(config, place) : openRemote(config, config.engine.remote, place);
}

async function openLocal(config: RunConfig, { modelFolder, placement, clock }: EnginePlace): Promise<RunEngine> {
  const { maxRunning, maxStepTokens } = config.engine;
  const { contextLength, maxInFlight } = config.rollout;
  const engine = await startThreadedEngine({
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device: placement.device,
    dtype: placement.dtype,
    ...(config.model.quantization !== null && { quantization: config.model.quantization }),
    numThreads: placement.engineThreads,
    options: {
      contextLength,
      maxRunning: maxRunning ?? Math.min(256, maxInFlight),
      maxQueued: Math.max(16_384, 2 * maxInFlight),
      ...(maxStepTokens !== null && { maxStepTokens }),
      seed: config.seed,
      isSteady: true,
      reprefills: config.rollout.reprefill,
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

/** One to two minutes in all: the time of a server that is restarted, with its model to load. */
const PATIENCE = { maxAttempts: 14 };

async function openRemote(
  { rollout }: RunConfig,
  { kind, url, apiKey }: RemoteChoice,
  { runFolder, clock }: EnginePlace,
): Promise<RunEngine> {
  const server = { kind, url: url.reveal(), ...PATIENCE, ...(apiKey !== null && { apiKey: apiKey.reveal() }) };
  // Of this process and not of the run: one that goes on from a checkpoint is new to the server.
  const weights = new RemoteWeights({ ...server, run: randomUUID() });
  const remote = await connectRemote({ ...server, weights });
  remote.expectTrainable(rollout.sampling);
  return {
    generate: remote.generate,
    local: null,
    syncFrom: (trainer) => {
      const saveModel = (folder: string) => trainer.saveMerged(folder);
      return createFileSync({ saveModel, folder: join(runFolder, "weights"), targets: [weights], clock });
    },
    statements: remote.missing.map((line) => `${url}: ${line}`),
    close: async () => {
      weights.close();
      remote.close();
    },
  };
}
