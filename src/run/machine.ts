/** What this machine offers a run: its device, and how its cores are shared between engine and trainer. */
import { availableParallelism } from "node:os";
import { RerollError } from "../errors/reroll-error.ts";
import { cudaDeviceCount } from "../torch/cuda.ts";
import { listDevices } from "./placement-options.ts";
import type { RunConfig } from "./run-config.ts";

export interface Placement {
  /** The device of the trainer. */
  readonly device: string;
  readonly dtype: "float32" | "bfloat16";
  /** The engines of the run itself. */
  readonly engines: readonly EnginePlace[];
  /** Threads of one operator in each of them. */
  readonly engineThreads: number;
  readonly trainingThreads: number;
}

/** Where an engine runs. */
interface EnginePlace {
  readonly device: string;
  readonly workers: "threads" | "processes";
}

type TrainerPlacement = Omit<Placement, "engineThreads" | "engines">;

/** In a synchronous loop engine and trainer take turns, and each may use every core; in an asynchronous one they share them. */
export function placeRun(config: RunConfig): Placement {
  const cores = availableParallelism();
  const share = config.loop.type === "sync" ? cores : Math.max(1, Math.floor(cores / 2));
  const placement = placeTrainer(config, share);
  const engines = placeEngines(config, placement.device);
  const engineThreads = config.engine.threads ?? Math.max(1, Math.floor(share / engines.length));
  if (config.exact) expectExactPlace(placement.device, engines);
  return { ...placement, engines, engineThreads };
}

function expectExactPlace(device: string, engines: readonly EnginePlace[]): void {
  const isOne = engines.every(({ workers }) => workers === "threads");
  if (device.startsWith("cuda") && isOne) return;
  throw new RerollError(
    "NO_DEVICE",
    device.startsWith("cuda")
      ? 'exact is true, and engines on GPUs of their own run in processes of their own. Set placement.engine.workers to "threads", or leave exact out.'
      : "exact is true, and this machine has no CUDA device: exact kernels are for a GPU. Leave exact out; in float32 on the CPU the engine and the trainer differ by rounding alone.",
  );
}

/** Engines take their devices in turn; without any of their own they share that of the trainer. */
function placeEngines({ placement, training }: RunConfig, trainerDevice: string): readonly EnginePlace[] {
  const { devices, count, workers } = placement.engine;
  if (devices !== null) expectDevices(devices);
  const own = devices === null ? [trainerDevice] : listDevices(devices).map((index) => `cuda:${index}`);
  const trainers = trainerDevice.startsWith("cuda") ? ranksOn(trainerDevice, training.ranks) : [trainerDevice];
  return Array.from({ length: count ?? own.length }, (_, i) => {
    const device = own[i % own.length]!;
    return { device, workers: workers ?? (trainers.includes(device) ? "threads" : "processes") };
  });
}

/** The devices of a trainer's ranks: one rank stays where the run says, several have a GPU each. */
function ranksOn(device: string, numRanks: number): readonly string[] {
  if (numRanks > 1) return Array.from({ length: numRanks }, (_, rank) => `cuda:${rank}`);
  return device === "cuda" ? ["cuda", "cuda:0"] : [device];
}

function expectDevices(devices: string): void {
  const count = cudaDeviceCount();
  const missing = listDevices(devices).find((index) => index >= count);
  if (missing === undefined) return;
  throw new RerollError(
    "NO_DEVICE",
    `placement.engine.devices is ${JSON.stringify(devices)}, and this machine has ${count} CUDA devices: there is no device ${missing}.${count === 0 ? " Leave devices out; placement.engine.count alone starts engines on the CPU." : ` Use 0 to ${count - 1}.`}`,
  );
}

/** The keys of a run file that decide where its trainer runs. */
interface PlacedTrainer {
  readonly device: string;
  readonly model: Pick<RunConfig["model"], "dtype">;
  readonly training: Pick<RunConfig["training"], "threads" | "ranks">;
}

/** A trainer that has this many cores. Default: all of them. */
export function placeTrainer(config: PlacedTrainer, cores = availableParallelism()): TrainerPlacement {
  const device = resolveDevice(config.device);
  const isOnGpu = device.startsWith("cuda");
  expectGpus(config, isOnGpu);
  return {
    device,
    dtype: config.model.dtype === "auto" ? (isOnGpu ? "bfloat16" : "float32") : config.model.dtype,
    trainingThreads: config.training.threads ?? Math.max(1, Math.floor(cores / config.training.ranks)),
  };
}

function expectGpus({ training }: PlacedTrainer, isOnGpu: boolean): void {
  const count = cudaDeviceCount();
  if (!isOnGpu || training.ranks === 1 || training.ranks <= count) return;
  throw new RerollError(
    "NO_DEVICE",
    `training.ranks is ${training.ranks}, and this machine has ${count} CUDA devices. Each rank needs one of its own: set training.ranks to ${count} or less.`,
  );
}

function resolveDevice(wanted: string): string {
  const count = cudaDeviceCount();
  if (wanted === "auto") return count > 0 ? "cuda" : "cpu";
  if (wanted === "cpu" || (count > 0 && /^cuda(:\d+)?$/.test(wanted))) return wanted;
  throw new RerollError(
    "NO_DEVICE",
    `device ${JSON.stringify(wanted)} is not here: this machine has ${count} CUDA devices. Use "cpu", "cuda", "cuda:0" or "auto".`,
  );
}
