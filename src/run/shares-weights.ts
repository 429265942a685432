/** Whether engines on the device of a trainer read its weights where they are, so that the device holds them once. */
import type { RunConfig } from "./run-config.ts";

type SharingRun = Pick<RunConfig, "loop" | "model" | "training" | "engine">;

/**
 * Where rollout and training take turns, and what is trained is what is sampled with: no adapters to add in, no fewer bits, and no part of the weights
 * elsewhere. Engines that sample while the trainer works need weights that do not change under them.
 */
export function sharesWeights({ loop, model, training, engine }: SharingRun): boolean {
  const { zero, tensor, expert, pipeline } = training.strategy;
  const isWhole = zero < 3 && tensor * expert * pipeline === 1;
  const isAlike = model.lora === null && engine.quantization === null;
  return loop.type === "sync" && engine.remote === null && isAlike && isWhole;
}

/** Whether all engines of a run are on that device, so that there are no other weights. */
export function hasLentEngines(config: SharingRun & Pick<RunConfig, "placement">): boolean {
  const { devices, workers } = config.placement.engine;
  return sharesWeights(config) && devices === null && workers !== "processes";
}
