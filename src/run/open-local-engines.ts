/** The engines of the run itself: in threads that share its memory or in processes, on the devices that the placement gives them. */
import type { Clock } from "../flow/clock.ts";
import type { Metrics } from "../flow/metrics.ts";
import type { ServedEngine } from "../generation/engine.ts";
import { startThreadedEngine, type ThreadedEngine } from "../generation/local/threaded-engine.ts";
import { Seat } from "../generation/pool/seat.ts";
import type { Trainer } from "../training/trainer.ts";
import { createLentWeightsSync, type WeightBorrower } from "../weight-sync/lent-weights-sync.ts";
import { createSharedMemorySync, type SharedMemoryParts } from "../weight-sync/shared-memory-sync.ts";
import type { WeightSync } from "../weight-sync/weight-sync.ts";
import { EngineGroup, type ProcessEngine, startEngineProcess } from "./engine-group.ts";
import { type EngineParts, type OpenedEngines, openAll } from "./engine-parts.ts";
import { deviceName, type EnginePlace, engineDevices } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";
import { sharesWeights } from "./shares-weights.ts";

export async function openLocalEngines(config: RunConfig, parts: EngineParts): Promise<OpenedEngines> {
  const { placement, clock, report, log } = parts;
  const places = placement.engines.map((engine, i) => ({
    ...engine,
    name: `Engine ${i + 1} on ${placeName(engine)}`,
    worker: `engine ${i + 1}`,
  }));
  const isOnGpu = placement.device.startsWith("cuda");
  const isLender = (device: string) =>
    sharesWeights(config, isOnGpu) && deviceName(device) === deviceName(placement.device);
  const open = <Held extends ServedEngine>(
    workers: "threads" | "processes",
    start: (source: ReturnType<typeof engineSource>) => Promise<Held>,
  ) =>
    places
      .filter((place) => place.workers === workers)
      .map(({ name, worker, ...place }) => {
        const source = {
          ...engineSource(config, parts, place),
          isBorrower: workers === "threads" && isLender(place.device),
        };
        return Seat.open<Held>({ name, worker, open: () => start(source), bringsWeights: false, report, log });
      });
  const threads = open<ThreadedEngine>("threads", startThreadedEngine);
  const threadPlaces = places.filter(({ workers }) => workers === "threads");
  const processes = open<ProcessEngine>("processes", (source) =>
    startEngineProcess({ ...source, isExact: config.exact }),
  );
  const seats = await openAll<Seat>([...threads, ...processes]);
  const threadSeats = await Promise.all(threads);
  const lent = threadSeats.filter((_, i) => isLender(threadPlaces[i]!.device));
  const copied = threadSeats.filter((seat) => !lent.includes(seat));
  const processSeats = await Promise.all(processes);
  const ordered = [...threadPlaces, ...places.filter(({ workers }) => workers === "processes")];
  const trainers = new Set(placement.trainerDevices.map(deviceName));
  const isBeside = (_: unknown, i: number) =>
    isOnGpu && engineDevices(ordered[i]!).some((device) => trainers.has(deviceName(device)));
  const beside = [...threadSeats, ...processSeats].filter(isBeside).filter((seat) => !lent.some((one) => one === seat));
  const group =
    processes.length === 0
      ? null
      : await EngineGroup.open(processSeats, {
          devices: [placement.device, ...places.flatMap(engineDevices)],
          sent: sendsAdapters(config, parts) ? "adapters" : "merged",
          clock,
        });
  const isSplit = places.some(({ split }) => split !== undefined);
  return {
    seats,
    places: ordered.map(({ worker, workers, ...place }) => ({
      name: worker,
      runsIn: workers === "threads" ? "thread" : "process",
      device: placeName(place),
    })),
    syncFrom: (trainer) => {
      const lend = lender(trainer, clock);
      const withWeights: SharedMemoryParts["withWeights"] = (use) => trainer.withWeights(use);
      const threadSyncs = (isMeant: (seat: Seat) => boolean) => {
        const [borrowers, copiers] = [lent.filter(isMeant), copied.filter(isMeant)];
        return [
          ...(borrowers.length > 0 ? [lend(borrowers)] : []),
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
      await Promise.all([...lent, ...beside].map((seat) => seat.ask((engine) => engine.hold())));
      // Threads share the trainer's device by default, and so do split engines; those that do not lose nothing, since new weights empty their caches anyway.
      const sleepers: readonly Seat<ThreadedEngine | ProcessEngine>[] = isSplit ? processSeats : threadSeats;
      if (sleeps) await Promise.all(sleepers.map((seat) => seat.ask((engine) => engine.sleep())));
    },
    goOn: async () => void (await Promise.all(beside.map((seat) => seat.ask((engine) => engine.release())))),
    statements: seats.flatMap(({ name, engine }) => {
      const decoding = engine?.status().decoding;
      return decoding === undefined ? [] : [`${name} decodes ${decoding}.`];
    }),
    ...(group !== null && { close: async () => group.close() }),
  };
}

/** An engine in a thread of its own, with the options of the run, where its first engine is. */
export function startRunEngine(
  config: RunConfig,
  parts: Pick<EngineParts, "modelFolder" | "placement">,
): Promise<ThreadedEngine> {
  return startThreadedEngine(engineSource(config, parts, parts.placement.engines[0]!));
}

/** As in "cuda:0", or "cuda:0, cuda:1". */
function placeName(place: Pick<EnginePlace, "device" | "split">): string {
  return engineDevices(place).join(", ");
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

/** Lends engines the weights of a trainer, which they read where they are. */
function lender(trainer: Trainer, clock: Clock): (seats: readonly Seat<ThreadedEngine>[]) => WeightSync {
  // Engines and not seats: one that was opened again has weights of its own.
  const borrowers = new WeakSet<ThreadedEngine>();
  const borrower = (seat: Seat<ThreadedEngine>): WeightBorrower => ({
    isBorrowing: () => seat.engine !== null && borrowers.has(seat.engine),
    shareWeights: (version, parameters) =>
      seat.give(async (engine) => {
        await engine.shareWeights(version, parameters);
        borrowers.add(engine);
      }),
    renewWeights: (version) => seat.give((engine) => engine.renewWeights(version)),
  });
  return (seats) =>
    createLentWeightsSync({
      withParameters: (use) => trainer.withParameters(use),
      engines: seats.map(borrower),
      clock,
    });
}

function weightTarget(seat: Seat<ThreadedEngine>): SharedMemoryParts["engines"][number] {
  return { updateWeights: (version, weights) => seat.give((engine) => engine.updateWeights(version, weights)) };
}

function engineSource(
  config: RunConfig,
  { modelFolder, placement }: Pick<EngineParts, "modelFolder" | "placement">,
  { device, split }: Pick<EnginePlace, "device" | "split">,
) {
  const { maxRunning, maxStepTokens, cacheQuantization } = config.engine;
  const quantization = config.engine.quantization ?? config.model.quantization;
  const { contextLength, maxInFlight } = config.rollout;
  return {
    folder: modelFolder,
    tokenizerFolder: modelFolder,
    device,
    split,
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
