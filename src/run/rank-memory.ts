/**
 * What one rank of a trainer takes, under its strategy, of what a trainer alone would take. Pure.
 *
 * The formula is that of docs/guides/many-gpus.md, at the peak of a backward pass; `npm run bench -- strategy-memory` compares what stays between steps.
 */
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import {
  countParameters,
  estimateMemory,
  expertShare,
  type MemoryFacts,
  type MemoryPart,
  residualShare,
} from "./estimate-memory.ts";
import type { RunConfig } from "./run-config.ts";

type RankedTraining = Pick<RunConfig["training"], "ranks" | "strategy" | "recompute">;

/** Every part of a run on the device of the first rank, where the engine is too. */
export function estimateRankMemory(config: RunConfig, facts: MemoryFacts): MemoryPart[] {
  const parts = estimateMemory({ ...config, training: inPasses(config.training) }, facts);
  const own = rankParts(parts, config.training, facts);
  const { zero, tensor, expert, pipeline } = config.training.strategy;
  const isGathered = config.engine.remote === null && (zero === 3 || tensor * expert * pipeline > 1);
  const weights = parts.find(({ owner, what }) => owner === "trainer" && what === "weights")!.bytes;
  if (!isGathered) return own;
  // Engines in processes are sent a layer at a time, and what is in none at once.
  const { workers, tensor: engineTensor, expert: engineExpert } = config.placement.engine;
  const inProcesses = workers === "processes" || engineTensor * engineExpert > 1;
  const share = inProcesses ? largestPart(facts.model) : 1;
  const bytes = weights * share;
  return [...own, { owner: "trainer", what: "weights gathered for engines", bytes, phase: "training" }];
}

/** The share of a model's weights that is in one layer, or in none, whichever is more. */
function largestPart(model: CausalLmConfig): number {
  const { outside, layer } = partsOf(model);
  return Math.max(outside, layer);
}

/** The share of the weights that is in no layer, and that of one layer. */
function partsOf(model: CausalLmConfig): { readonly outside: number; readonly layer: number } {
  const outside = ((model.tieEmbeddings ? 1 : 2) * model.vocabSize * model.width) / countParameters(model);
  return { outside, layer: (1 - outside) / model.numLayers };
}

/** How a role apart from the trainer is spread over its workers: one has models whole, several share them as the trainer does, but for stages. */
export function roleStrategy(strategy: RunConfig["training"]["strategy"], numWorkers: number) {
  const whole = { ...strategy, pipeline: 1 };
  return numWorkers === 1 ? { ...whole, tensor: 1, context: 1, expert: 1 } : whole;
}

/** ZeRO 3 computes layers again in the backward pass. */
export function inPasses<Training extends RankedTraining>(training: Training): Training {
  return training.strategy.zero === 3 ? { ...training, recompute: true } : training;
}

/** The parts of one of the ranks. Engines, reward models and past versions are whole. */
export function rankParts(
  parts: readonly MemoryPart[],
  { ranks, strategy: asked }: RankedTraining,
  { model, isOnGpu }: Pick<MemoryFacts, "model" | "isOnGpu">,
): MemoryPart[] {
  const { tensor, pipeline } = asked;
  // Without a GPU the host is where everything is.
  const strategy = isOnGpu ? asked : { ...asked, offload: "none" as const };
  const replicas = ranks / (tensor * pipeline);
  const { outside, layer } = partsOf(model);
  const inExperts = expertShare(model);
  const staged =
    pipeline === 1 ? 1 : Math.ceil(model.numLayers / pipeline) * layer + outside / (model.tieEmbeddings ? 1 : 2);
  const held = ((1 - inExperts + inExperts / asked.expert) * staged) / tensor;
  const shares = { replicas, outside, layer, held, staged };
  return parts.map((part) => ({ ...part, bytes: part.bytes * shareOf(part, strategy, shares, model) }));
}

interface Shares {
  /** Ranks with the same weights. */
  readonly replicas: number;
  /** The share of the weights that is in no layer, and that of one layer. */
  readonly outside: number;
  readonly layer: number;
  /** The share of a model that this rank has where nothing is sharded: a part of every layer, or of the experts. */
  readonly held: number;
  /** The share that is in the layers of this rank's stage, and outside of layers at one end. */
  readonly staged: number;
}

function shareOf(
  { owner, what }: MemoryPart,
  { zero, tensor, context, offload }: RunConfig["training"]["strategy"],
  { replicas, outside, layer, held, staged }: Shares,
  model: CausalLmConfig,
): number {
  if (owner === "engine" || owner === "past version" || owner === "reward model") return 1;
  const sharded = zero === 0 ? held : staged / (replicas * tensor);
  if (what === "weights") {
    // With offload of parameters, a rank's own part is on the host.
    const own = offload === "parameters" ? 0 : (1 - outside) / replicas;
    return zero === 3 ? (own + outside + layer) / tensor : held;
  }
  // Until they are summed all are there with stage 1, and those of a layer from stage 2 on.
  if (what === "gradients") return zero === 0 ? held : zero === 1 ? held + sharded : sharded + layer / tensor;
  if (what === "optimizer") return offload === "none" ? sharded : 0;
  if (!what.startsWith("activations")) return 1;
  // A stage has as many passes under way as there are stages, each over its share of the layers: what one rank has of one pass.
  const residual = residualShare(model);
  return (residual + (1 - residual) / tensor) / context;
}
