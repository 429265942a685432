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
  const device = resolveDevice(config.device);
  const isOnGpu = device.startsWith("cuda");
  const cores = availableParallelism();
  expectGpus(config, isOnGpu);
  const share = config.loop.type === "sync" ? cores : Math.max(1, Math.floor(cores / 2));
  return {
    device,
    dtype: config.model.dtype === "auto" ? (isOnGpu ? "bfloat16" : "float32") : config.model.dtype,
    engineThreads: config.engine.threads ?? share,
    trainingThreads: config.training.threads ?? Math.max(1, Math.floor(share / config.training.ranks)),
  };
}

function expectGpus({ training }: RunConfig, isOnGpu: boolean): void {
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
