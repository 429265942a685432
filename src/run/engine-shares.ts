/** What one device of a split engine has of the model and of the cache. Pure. */
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { splitProblem } from "../models/causal-lm/model-spread.ts";
import type { EnginePlace } from "./machine.ts";
import { engineDevices } from "./machine.ts";
import type { RunConfig } from "./run-config.ts";

type EngineCounts = Pick<RunConfig["placement"]["engine"], "tensor" | "expert">;

/** The number of devices that an engine is split over. */
export function ranksOf({ tensor, expert }: EngineCounts): number {
  return Math.max(tensor, expert);
}

/** The share of the weights, where `inExperts` of them are in experts. */
export function weightShare(inExperts: number, { tensor, expert }: EngineCounts): number {
  return (1 - inExperts) / tensor + inExperts / ranksOf({ tensor, expert });
}

/** The shape of the model with the heads that a device has: what its cache goes by. */
export function cachedShape(model: CausalLmConfig, { tensor }: EngineCounts): CausalLmConfig {
  return tensor === 1 ? model : { ...model, numKeyValueHeads: model.numKeyValueHeads / tensor };
}

/** Why engines cannot be split as `placement.engine` says, as a sentence; null where they can. */
export function engineSplitProblem({ placement }: Pick<RunConfig, "placement">, model: CausalLmConfig): string | null {
  const { tensor, expert } = placement.engine;
  return splitProblem(model, { tensor, expert, context: 1, pipeline: 1 }, "placement.engine.");
}

/** Whether what else a run asks of its engines goes with splitting them. */
export function maySplit({ engine, model, exact }: Pick<RunConfig, "engine" | "model" | "exact">): boolean {
  const isQuantized = model.quantization !== null || engine.quantization !== null || engine.cacheQuantization !== null;
  return !isQuantized && engine.remote === null && !exact;
}

/** Engines on the same devices, split another way. */
export function splitEngines(engines: readonly EnginePlace[], counts: EngineCounts): readonly EnginePlace[] {
  const numRanks = ranksOf(counts);
  const devices = engines.flatMap(engineDevices);
  if (engines.every((engine) => engineDevices(engine).length === numRanks)) return engines;
  return Array.from({ length: Math.max(1, Math.floor(devices.length / numRanks)) }, (_, i) => {
    const own = Array.from({ length: numRanks }, (_, rank) => devices[(i * numRanks + rank) % devices.length]!);
    const place = { device: own[0]!, workers: "processes" as const };
    return numRanks === 1 ? place : { ...place, split: { ...counts, devices: own } };
  });
}
