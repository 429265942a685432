/** What this machine offers a run: its device, and how its cores are shared between engine and trainer. */
import { availableParallelism } from "node:os";
import { RerollError } from "../errors/reroll-error.ts";
import { cudaDeviceCount } from "../torch/cuda.ts";
import type { RunConfig } from "./run-config.ts";

export interface Placement {
  readonly device: string;
  readonly dtype: "float32" | "bfloat16";
  readonly engineThreads: number;
  readonly trainingThreads: number;
}

/** In a synchronous loop engine and trainer take turns, and each may use every core; in an asynchronous one they share them. */
export function placeRun(config: RunConfig): Placement {
  const cores = availableParallelism();
  const share = config.loop.type === "sync" ? cores : Math.max(1, Math.floor(cores / 2));
  return { ...placeTrainer(config, share), engineThreads: config.engine.threads ?? share };
}

/** The keys of a run file that decide where its trainer runs. */
interface PlacedTrainer {
  readonly device: string;
  readonly model: Pick<RunConfig["model"], "dtype">;
  readonly training: Pick<RunConfig["training"], "threads" | "ranks">;
}

/** A trainer that has this many cores. Default: all of them. */
export function placeTrainer(config: PlacedTrainer, cores = availableParallelism()): Omit<Placement, "engineThreads"> {
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
