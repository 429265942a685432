/** Engines on the device of a trainer: whether they draw while it works, and whether they read its weights where they are. */
import type { RunConfig } from "./run-config.ts";

type SharingRun = Pick<RunConfig, "loop" | "model" | "training" | "engine">;

/**
 * Whether engines on the device of a trainer wait while it trains. In asynchronous loops too where that device is a GPU: kernels of both at the
 * same time take longer than one after the other, while rewards, environments and everything else of the host goes on in any case. On the
 * CPU each has cores of its own.
 */
function takesTurns({ loop }: Pick<RunConfig, "loop">, isOnGpu: boolean): boolean {
  return loop.type === "sync" || isOnGpu;
}

/**
 * Whether engines read the weights of a trainer on their device, which then holds them once: they take turns, every step publishes its
 * weights, and what is trained is what is sampled with, without adapters to add in, fewer bits or parts that are elsewhere. Engines that draw while the
 * trainer works, or with weights from before the last step, need a copy.
 */
export function sharesWeights(config: SharingRun, isOnGpu: boolean): boolean {
  const { loop, model, training, engine } = config;
  const { zero, tensor, expert, pipeline } = training.strategy;
  const isWhole = zero < 3 && tensor * expert * pipeline === 1;
  const isCurrent = loop.type === "sync" || loop.syncInterval === 1;
  const isAlike = model.lora === null && engine.quantization === null && isWhole;
  return takesTurns(config, isOnGpu) && isCurrent && engine.remote === null && isAlike;
}

/** Whether all engines of a run are on that device, so that there are no other weights. */
export function hasLentEngines(config: SharingRun & Pick<RunConfig, "placement">, isOnGpu: boolean): boolean {
  const { devices, workers, tensor, expert } = config.placement.engine;
  return sharesWeights(config, isOnGpu) && devices === null && workers !== "processes" && tensor * expert === 1;
}
