/** The engines of the run itself: each in a thread of this process, on the device that the placement gives it. */
import { startThreadedEngine, type ThreadedEngine } from "../generation/local/threaded-engine.ts";
import { Seat } from "../generation/pool/seat.ts";
import { createSharedMemorySync } from "../weight-sync/shared-memory-sync.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import type { RunConfig } from "./run-config.ts";

export async function openLocalEngines(config: RunConfig, parts: EngineParts): Promise<OpenedEngines> {
  const { placement, clock, report } = parts;
  const seats = await openAll(
    placement.engineDevices.map((device, i) =>
      Seat.open<ThreadedEngine>({
        name: `Engine ${i + 1} on ${device}`,
        open: () => startRunEngine(config, parts, device),
        bringsWeights: false,
        report,
      }),
    ),
  );
  const engines = seats.map((seat) => ({
    updateWeights: (version: number, weights: Parameters<ThreadedEngine["updateWeights"]>[1]) =>
      seat.give((engine) => engine.updateWeights(version, weights)),
  }));
  return {
    seats,
    syncFrom: (trainer) => createSharedMemorySync({ withWeights: (use) => trainer.withWeights(use), engines, clock }),
    statements: [],
  };
}

/** An engine in a thread of its own, with the options of the run. */
export function startRunEngine(
  config: RunConfig,
  { modelFolder, placement }: Pick<EngineParts, "modelFolder" | "placement">,
  device: string,
): Promise<ThreadedEngine> {
  const { maxRunning, maxStepTokens } = config.engine;
  const { contextLength, maxInFlight } = config.rollout;
  return startThreadedEngine({
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device,
    dtype: placement.dtype,
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
}
