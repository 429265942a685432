/** Whether the engines of a run give their caches back while its trainer works. */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { modelShape, roleShapes } from "./check-files.ts";
import { peakBytes } from "./estimate-memory.ts";
import { placeRun } from "./machine.ts";
import { readMachine } from "./prepare-run.ts";
import { estimateRankMemory } from "./rank-memory.ts";
import type { RunConfig } from "./run-config.ts";
import { hasLentEngines } from "./shares-weights.ts";

/** Estimates are off by up to 10 %, and allocators keep some memory for themselves. */
const MAX_AWAKE = 0.8;

/** As the run file says; where it does not, if everything at once would take most of the device. */
export function sleepsWhileTraining(config: RunConfig, recipe: Recipe): boolean {
  // In other loops engines sample while the trainer works.
  if (config.loop.type !== "sync") return false;
  if (config.placement.engine.sleep !== null) return config.placement.engine.sleep;
  // What servers share with the trainer is not known here.
  if (config.engine.remote !== null) return false;
  const { device, dtype, memoryBytes } = readMachine(placeRun(config));
  const memory = estimateRankMemory(config, {
    model: modelShape(config.model),
    isOnGpu: device.startsWith("cuda"),
    dtype,
    needsReference: recipe.needs.includes("referenceLogprobs_BT"),
    hasCritic: recipe.hasCritic,
    isEngineLent: hasLentEngines(config, device.startsWith("cuda")),
    roles: roleShapes(config),
  });
  return peakBytes(memory, false) > MAX_AWAKE * memoryBytes;
}
