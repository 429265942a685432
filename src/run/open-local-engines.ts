/** The engines of the run itself: in threads that share its memory or in processes, on the devices that the placement gives them. */
import type { Metrics } from "../flow/metrics.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { startThreadedEngine, type ThreadedEngine } from "../generation/local/threaded-engine.ts";
import { Seat } from "../generation/pool/seat.ts";
import { createSharedMemorySync, type SharedMemoryParts } from "../weight-sync/shared-memory-sync.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import { EngineGroup, type ProcessEngine, startEngineProcess } from "./engine-group.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import type { RunConfig } from "./run-config.ts";

export async function openLocalEngines(config: RunConfig, parts: EngineParts): Promise<OpenedEngines> {
  const { placement, clock, report } = parts;
  const places = placement.engines.map((engine, i) => ({ ...engine, name: `Engine ${i + 1} on ${engine.device}` }));
  const open = <Held extends ServedEngine>(
    workers: "threads" | "processes",
    start: (source: ReturnType<typeof engineSource>) => Promise<Held>,
  ) =>
    places
      .filter((place) => place.workers === workers)
      .map(({ name, device }) => {
        const source = engineSource(config, parts, device);
        return Seat.open<Held>({ name, open: () => start(source), bringsWeights: false, report });
      });
  const threads = open<ThreadedEngine>("threads", startThreadedEngine);
  const processes = open<ProcessEngine>("processes", startEngineProcess);
  const seats = await openAll<Seat>([...threads, ...processes]);
  const threadSeats = await Promise.all(threads);
  const engines = threadSeats.map(weightTarget);
  const group =
    processes.length === 0
      ? null
      : await EngineGroup.open(
          await Promise.all(processes),
          [placement.device, ...places.map(({ device }) => device)],
          clock,
        );
  return {
    seats,
    syncFrom: (trainer) => {
      const withWeights: SharedMemoryParts["withWeights"] = (use) => trainer.withWeights(use);
      const syncs = [
        ...(engines.length > 0 ? [createSharedMemorySync({ withWeights, engines, clock })] : []),
        ...(group === null ? [] : [group.syncFrom(trainer)]),
      ];
      return inOrder(syncs);
    },
    // Only threads share the trainer's device by default; those that do not lose nothing, since new weights empty their caches anyway.
    sleep: async () => void (await Promise.all(threadSeats.map((seat) => seat.ask((engine) => engine.sleep())))),
    statements: [],
    ...(group !== null && { close: async () => group.close() }),
  };
}

/** An engine in a thread of its own, with the options of the run. */
export function startRunEngine(
  config: RunConfig,
  parts: Pick<EngineParts, "modelFolder" | "placement">,
  device: string,
): Promise<ThreadedEngine> {
  return startThreadedEngine(engineSource(config, parts, device));
}

/** One publication after another: each has the trainer's weights to itself. */
function inOrder(syncs: readonly WeightSync[]): WeightSync {
  return {
    publish: async (version) => {
      const sum: Record<string, number> = {};
      for (const sync of syncs) {
        const metrics: Metrics = await sync.publish(version);
        for (const [name, value] of Object.entries(metrics)) sum[name] = (sum[name] ?? 0) + value;
      }
      return sum;
    },
  };
}

function weightTarget(seat: Seat<ThreadedEngine>): SharedMemoryParts["engines"][number] {
  return { updateWeights: (version, weights) => seat.give((engine) => engine.updateWeights(version, weights)) };
}

function engineSource(
  config: RunConfig,
  { modelFolder, placement }: Pick<EngineParts, "modelFolder" | "placement">,
  device: string,
) {
  const { maxRunning, maxStepTokens } = config.engine;
  const { contextLength, maxInFlight } = config.rollout;
  return {
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device,
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
  };
}
