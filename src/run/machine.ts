/** What this machine offers a run: its device, and how its cores are shared between engine and trainer. */
import { availableParallelism } from "node:os";
import { RerollError } from "../errors/reroll-error.ts";
import type { EngineSplit } from "../generation/local/split/join-ranks.ts";
import { cudaDeviceCount } from "../torch/cuda.ts";
import type { RolePlace } from "../training/roles/start-roles.ts";
import { listDevices } from "./placement-options.ts";
import type { RunConfig } from "./run-config.ts";

export interface Placement {
  /** The device of the trainer, or of its first rank. */
  readonly device: string;
  /** The devices of all its ranks. Those that have the same one share it. */
  readonly trainerDevices: readonly string[];
  readonly dtype: "float32" | "bfloat16";
  /** The engines of the run itself. */
  readonly engines: readonly EnginePlace[];
  /** Threads of one operator in each of them. */
  readonly engineThreads: number;
  readonly trainingThreads: number;
  /** Where roles are that have workers apart from the trainer's; null for one that is with it. */
  readonly reference: RolePlace | null;
  readonly critic: RolePlace | null;
  /** The devices of reward models, in turn. null: those that they name themselves. */
  readonly rewardDevices: readonly string[] | null;
}

/** Where an engine runs. */
export interface EnginePlace {
  /** The device of its first rank. */
  readonly device: string;
  readonly workers: "threads" | "processes";
  /** How its model is split over devices. Absent: it is all on one. */
  readonly split?: EngineSplit;
}

/** The devices of an engine: one, or that of each rank. */
export function engineDevices({ device, split }: Pick<EnginePlace, "device" | "split">): readonly string[] {
  return split?.devices ?? [device];
}

type TrainerPlacement = Pick<Placement, "device" | "trainerDevices" | "dtype" | "trainingThreads">;

/** In a synchronous loop engine and trainer take turns, and each may use every core; in an asynchronous one they share them. */
export function placeRun(config: RunConfig, numGpus = cudaDeviceCount()): Placement {
  const cores = availableParallelism();
  const share = config.loop.type === "sync" ? cores : Math.max(1, Math.floor(cores / 2));
  const placement = placeTrainer(config, share, numGpus);
  const engines = placeEngines(config, placement, numGpus);
  const engineThreads = config.engine.threads ?? Math.max(1, Math.floor(share / engines.flatMap(engineDevices).length));
  const roles = {
    reference: placeRole("reference", config, placement, numGpus),
    critic: placeRole("critic", config, placement, numGpus),
    rewardDevices: rewardDevices(config, numGpus),
  };
  if (config.exact && !placement.device.startsWith("cuda")) throw noExactPlace();
  return { ...placement, engines, engineThreads, ...roles };
}

/** The devices that reward models take in turn. null: those that they name themselves. */
export function rewardDevices(
  { placement }: Pick<RunConfig, "placement">,
  numGpus = cudaDeviceCount(),
): readonly string[] | null {
  const { devices } = placement.reward;
  return devices === null ? null : cudaDevices("placement.reward.devices", devices, numGpus);
}

/** null for a role that is with the trainer: no place is given, or the trainer's own. */
function placeRole(
  role: "reference" | "critic",
  { placement }: RunConfig,
  { device, trainerDevices }: TrainerPlacement,
  numGpus: number,
): RolePlace | null {
  const { devices, count, workers } = placement[role];
  const own = devices === null ? null : cudaDevices(`placement.${role}.devices`, devices, numGpus);
  const isTrainers = own === null || sameDevices(own, trainerDevices);
  if (workers === null && count === null && isTrainers) return null;
  const places = own ?? [device];
  return {
    devices: Array.from({ length: count ?? places.length }, (_, i) => places[i % places.length]!),
    workers: workers ?? "processes",
  };
}

function sameDevices(some: readonly string[], others: readonly string[]): boolean {
  const names = (devices: readonly string[]) => [...new Set(devices.map(deviceName))].toSorted().join();
  return names(some) === names(others);
}

function noExactPlace(): RerollError {
  return new RerollError(
    "NO_DEVICE",
    "exact is true, and this machine has no CUDA device: exact kernels are for a GPU. Leave exact out; in float32 on the CPU the engine and the trainer differ by rounding alone.",
  );
}

/** Engines take their devices in turn; without any of their own they share that of the trainer, or where they are split those of its ranks. */
function placeEngines(
  { placement }: RunConfig,
  { device: trainerDevice, trainerDevices }: TrainerPlacement,
  numGpus: number,
): readonly EnginePlace[] {
  const { devices, count, workers, tensor, expert } = placement.engine;
  const numRanks = Math.max(tensor, expert);
  const shared = numRanks === 1 ? [trainerDevice] : [...new Set(trainerDevices.map(deviceName))];
  if (devices === null && shared[0] !== "cpu" && shared.length < numRanks) throw tooFewDevices(numRanks, shared.length);
  const own = devices === null ? shared : cudaDevices("placement.engine.devices", devices, numGpus);
  const isTrainers = (device: string) => trainerDevices.some((one) => deviceName(one) === deviceName(device));
  return Array.from({ length: count ?? Math.max(1, Math.floor(own.length / numRanks)) }, (_, i) => {
    const ranks = Array.from({ length: numRanks }, (_, rank) => own[(i * numRanks + rank) % own.length]!);
    const device = ranks[0]!;
    if (numRanks > 1) return { device, workers: "processes", split: { tensor, expert, devices: ranks } };
    return { device, workers: workers ?? (isTrainers(device) ? "threads" : "processes") };
  });
}

function tooFewDevices(numRanks: number, numShared: number): RerollError {
  return new RerollError(
    "NO_DEVICE",
    `placement.engine splits the model over ${numRanks} devices, and the trainer has ${numShared}. List those of the engine, as in placement.engine: { devices: "0-${numRanks - 1}" }.`,
  );
}

/** A GPU by its number: "cuda" is the first one. */
export function deviceName(device: string): string {
  return device === "cuda" ? "cuda:0" : device;
}

/** The devices that a list such as "0-3" names. Throws where this machine has fewer. */
function cudaDevices(key: string, list: string, numGpus: number): readonly string[] {
  const numbers = listDevices(list);
  const missing = numbers.find((index) => index >= numGpus);
  if (missing === undefined) return numbers.map((index) => `cuda:${index}`);
  throw new RerollError(
    "NO_DEVICE",
    `${key} is ${JSON.stringify(list)}, and this machine has ${numGpus} CUDA devices: there is no device ${missing}.${numGpus === 0 ? " Leave devices out: without GPUs everything is on the CPU." : ` Use 0 to ${numGpus - 1}.`}`,
  );
}

/** The keys of a run file that decide where its trainer runs. */
interface PlacedTrainer {
  readonly device: string;
  readonly model: Pick<RunConfig["model"], "dtype">;
  readonly training: Pick<RunConfig["training"], "threads" | "ranks" | "strategy">;
  readonly placement?: Pick<RunConfig["placement"], "trainer">;
}

/** A trainer that has this many cores. Default: all of them. */
export function placeTrainer(
  config: PlacedTrainer,
  cores = availableParallelism(),
  numGpus = cudaDeviceCount(),
): TrainerPlacement {
  const trainerDevices = rankDevices(config, numGpus);
  const [device = "cpu"] = trainerDevices;
  return {
    device,
    trainerDevices,
    dtype: config.model.dtype === "auto" ? (device === "cpu" ? "float32" : "bfloat16") : config.model.dtype,
    trainingThreads: config.training.threads ?? Math.max(1, Math.floor(cores / ranksHere(config.training))),
  };
}

/** The ranks of a trainer on this machine: one, where the others are on machines of their own. */
function ranksHere({ ranks, strategy }: PlacedTrainer["training"]): number {
  return strategy.in === "machines" ? 1 : ranks;
}

/** One rank is where the run says, several have a GPU each; where the run file lists devices, ranks take those in turn. */
function rankDevices({ device, training, placement }: PlacedTrainer, numGpus: number): readonly string[] {
  const ranks = ranksHere(training);
  const listed = placement?.trainer.devices ?? null;
  if (listed !== null) {
    const own = cudaDevices("placement.trainer.devices", listed, numGpus);
    return Array.from({ length: ranks }, (_, rank) => own[rank % own.length]!);
  }
  const first = resolveDevice(device, numGpus);
  if (ranks === 1 || first === "cpu") return new Array<string>(ranks).fill(first);
  if (ranks > numGpus)
    throw new RerollError(
      "NO_DEVICE",
      `training.ranks is ${ranks}, and this machine has ${numGpus} CUDA devices, of which each rank takes one. Set training.ranks to ${numGpus} or less, or list the devices that ranks are to share, as in placement.trainer: { devices: "0-${numGpus - 1}" }.`,
    );
  return Array.from({ length: ranks }, (_, rank) => `cuda:${rank}`);
}

function resolveDevice(wanted: string, count: number): string {
  if (wanted === "auto") return count > 0 ? "cuda" : "cpu";
  if (wanted === "cpu" || (count > 0 && /^cuda(:\d+)?$/.test(wanted))) return wanted;
  throw new RerollError(
    "NO_DEVICE",
    `device ${JSON.stringify(wanted)} is not here: this machine has ${count} CUDA devices. Use "cpu", "cuda", "cuda:0" or "auto".`,
  );
}
