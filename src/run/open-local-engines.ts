/** The engines of the run itself: in threads that share its memory or in processes, on the devices that the placement gives them. */
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { startThreadedEngine, type ThreadedEngine } from "../generation/local/threaded-engine.ts";
import { Seat } from "../generation/pool/seat.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { Trainer } from "../training/trainer.ts";
import { createLentWeightsSync } from "../weight-sync/lent-weights-sync.ts";
import { createSharedMemorySync, type SharedMemoryParts } from "../weight-sync/shared-memory-sync.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import { EngineGroup, type ProcessEngine, startEngineProcess } from "./engine-group.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import { deviceName } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";
import { sharesWeights } from "./shares-weights.ts";

export async function openLocalEngines(config: RunConfig, parts: EngineParts): Promise<OpenedEngines> {
  const { placement, clock, report, log } = parts;
  const places = placement.engines.map((engine, i) => ({
    ...engine,
    name: `Engine ${i + 1} on ${engine.device}`,
    worker: `engine ${i + 1}`,
  }));
  const open = <Held extends ServedEngine>(
    workers: "threads" | "processes",
    start: (source: ReturnType<typeof engineSource>) => Promise<Held>,
  ) =>
    places
      .filter((place) => place.workers === workers)
      .map(({ name, worker, device }) => {
        const source = engineSource(config, parts, device);
        return Seat.open<Held>({ name, worker, open: () => start(source), bringsWeights: false, report, log });
      });
  const threads = open<ThreadedEngine>("threads", startThreadedEngine);
  const threadPlaces = places.filter(({ workers }) => workers === "threads");
  const processes = open<ProcessEngine>("processes", startEngineProcess);
  const seats = await openAll<Seat>([...threads, ...processes]);
  const threadSeats = await Promise.all(threads);
  const isLent = (_: unknown, i: number) =>
    sharesWeights(config) && deviceName(threadPlaces[i]!.device) === deviceName(placement.device);
  const lent = threadSeats.filter(isLent);
  const copied = threadSeats.filter((seat) => !lent.includes(seat));
  const group =
    processes.length === 0
      ? null
      : await EngineGroup.open(await Promise.all(processes), {
          devices: [placement.device, ...places.map(({ device }) => device)],
          sent: sendsAdapters(config, parts) ? "adapters" : "merged",
          clock,
        });
  const ordered = [...threadPlaces, ...places.filter(({ workers }) => workers === "processes")];
  return {
    seats,
    places: ordered.map(({ worker, device, workers }) => ({
      name: worker,
      runsIn: workers === "threads" ? "thread" : "process",
      device,
    })),
    syncFrom: (trainer) => {
      const withWeights: SharedMemoryParts["withWeights"] = (use) => trainer.withWeights(use);
      const threadSyncs = (isMeant: (seat: Seat) => boolean) => {
        const [borrowers, copiers] = [lent.filter(isMeant), copied.filter(isMeant)];
        return [
          ...(borrowers.length > 0 ? [lentSync(trainer, borrowers, clock)] : []),
          ...(copiers.length > 0
            ? [createSharedMemorySync({ withWeights, engines: copiers.map(weightTarget), clock })]
            : []),
        ];
      };
      const groups = group === null ? [] : [group.syncFrom(trainer)];
      return {
        publish: (version) => publishAll([...threadSyncs(() => true), ...groups], version),
        catchUp: async (version) => {
          await publishAll(
            threadSyncs(({ isServing, engine }) => !isServing && engine !== null),
            version,
          );
          for (const one of groups) await one.catchUp(version);
        },
      };
    },
    rest: async (sleeps) => {
      await Promise.all(lent.map((seat) => seat.ask((engine) => engine.hold())));
      // Only threads share the trainer's device by default; those that do not lose nothing, since new weights empty their caches anyway.
      if (sleeps) await Promise.all(threadSeats.map((seat) => seat.ask((engine) => engine.sleep())));
    },
    statements: seats.flatMap(({ name, engine }) => {
      const decoding = engine?.status().decoding;
      return decoding === undefined ? [] : [`${name} decodes ${decoding}.`];
    }),
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

/** Engines add adapters to the weights of their files, which are those that the trainer began with. */
function sendsAdapters({ model }: RunConfig, { modelFolder }: EngineParts): boolean {
  return model.lora !== null && !modelFolder.endsWith(".gguf");
}

/** One publication after another: each has the trainer's weights to itself. */
async function publishAll(syncs: readonly WeightSync[], version: number): Promise<Metrics> {
  const sum: Record<string, number> = {};
  for (const sync of syncs) {
    const metrics: Metrics = await sync.publish(version);
    for (const [name, value] of Object.entries(metrics)) sum[name] = (sum[name] ?? 0) + value;
  }
  return sum;
}

/** Engines that read the trainer's weights where they are. */
function lentSync(trainer: Trainer, seats: readonly Seat<ThreadedEngine>[], clock: Clock): WeightSync {
  const engines = seats.map((seat) => ({
    shareWeights: (version: number, parameters: ReadonlyMap<string, Tensor>) =>
      seat.give((engine) => engine.shareWeights(version, parameters)),
  }));
  return createLentWeightsSync({ withParameters: (use) => trainer.withParameters(use), engines, clock });
}

function weightTarget(seat: Seat<ThreadedEngine>): SharedMemoryParts["engines"][number] {
  return { updateWeights: (version, weights) => seat.give((engine) => engine.updateWeights(version, weights)) };
}

function engineSource(
  config: RunConfig,
  { modelFolder, placement }: Pick<EngineParts, "modelFolder" | "placement">,
  device: string,
) {
  const { maxRunning, maxStepTokens, cacheQuantization } = config.engine;
  const quantization = config.engine.quantization ?? config.model.quantization;
  const { contextLength, maxInFlight } = config.rollout;
  return {
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device,
    dtype: placement.dtype,
    ...(quantization !== null && { quantization }),
    numThreads: placement.engineThreads,
    options: {
      contextLength,
      maxRunning: maxRunning ?? Math.min(256, maxInFlight),
      maxQueued: Math.max(16_384, 2 * maxInFlight),
      ...(maxStepTokens !== null && { maxStepTokens }),
      seed: config.seed,
      isSteady: true,
      reprefills: config.rollout.reprefill,
      cacheQuantization,
    },
  };
}
