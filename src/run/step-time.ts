/**
 * How long the phases of a step take on GPUs, from the shape of the model. Pure.
 *
 * Calibrated on one H200 in bfloat16: arithmetic and memory with Qwen2.5-0.5B (bench/results/gpu-train-step.json, gpu-decode.json), what the host takes
 * with SmolLM2-135M (gpu-exact.json) and a chat model of 26M (gpu-language-model.json). `npm run bench -- plan` and step-time.test.ts compare them with what was
 * measured, GRPO of a 7B shape among it, which nothing was fitted to. Traffic between GPUs has not been measured, and is counted at the rate below.
 */
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { countParameters } from "./estimate-memory.ts";

/** Dense bfloat16 products of an H200, as measured: FLOP per second. */
const PEAK_FLOPS = 790e12;
/** Shares of it that were reached. */
const SHARES = { train: 0.55, forward: 0.62, prefill: 0.47 } as const;
/** A step with recomputation, to one without. */
const RECOMPUTE = 1.23;
/** Bytes per second that decoding reads weights and keys and values with: seven tenths of what the memory gives. */
const DECODE_BANDWIDTH = 3.4e12;
/** What a layer of a decode step costs beside that: short kernels, one after another. */
const SECONDS_PER_LAYER = 15e-6;
/** What the thread of a trainer takes to launch a layer forward and backward, and forward alone: small models wait for it. */
const HOST_PER_LAYER = { train: 2.05e-3, forward: 0.28e-3 } as const;
/** What threads of the run take for a token that is drawn, which engines wait for where they are faster. */
const HOST_PER_TOKEN = 3.2e-6;
/** And for a trajectory: its episode, and its rows in a training step. */
const HOST_PER_TRAJECTORY = { rollout: 0.2e-3, train: 0.08e-3 } as const;
/** Weights from GPU to GPU; not measured. */
const LINK_BANDWIDTH = 50e9;

/** What a step has to do, in numbers. */
export interface StepWork {
  readonly trajectories: number;
  readonly groupSize: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
  /** Sequences that an engine decodes at once. */
  readonly maxRunning: number;
  readonly recomputes: boolean;
  /** Tokens of a forward and backward pass. */
  readonly microbatchTokens: number;
  /** Forward passes over the batch beside those that train: a reference, an anchor, a critic. */
  readonly numMeasured: number;
  /** Models that are trained: the policy, and a critic. */
  readonly numTrained: number;
  readonly hasAdapters: boolean;
}

/** Seconds of each phase. */
export interface StepSeconds {
  readonly rollout: number;
  readonly train: number;
  readonly sync: number;
}

/** Who does the work. */
interface StepPlace {
  readonly numTrainers: number;
  readonly numEngines: number;
  readonly isApart: boolean;
  /** GPUs that the model of an engine is split over. Default 1. */
  readonly ranksPerEngine?: number;
  /** Whether weights are gathered within passes. Default false. */
  readonly isGathered?: boolean;
}

export function stepSeconds(model: CausalLmConfig, work: StepWork, place: StepPlace): StepSeconds {
  const { numTrainers, numEngines, isApart, isGathered = false, ranksPerEngine = 1 } = place;
  const tokens = work.trajectories * (work.promptTokens + work.replyTokens);
  const perTrainer = tokens / numTrainers;
  const numPasses = Math.ceil(perTrainer / work.microbatchTokens);
  const launched = (kind: keyof typeof HOST_PER_LAYER) => numPasses * model.numLayers * HOST_PER_LAYER[kind];
  const trained = work.numTrained * Math.max(trainSeconds(model, perTrainer, work), launched("train"));
  const measured = work.numMeasured * Math.max(forwardSeconds(model, perTrainer), launched("forward"));
  const bytes = 2 * countParameters(model);
  // Weights come for the forward pass and again for the backward pass, and gradients go.
  const numMoves = (3 * work.numTrained + work.numMeasured) * numPasses;
  const gathered = isGathered ? (numMoves * bytes) / LINK_BANDWIDTH : 0;
  return {
    rollout: rolloutSeconds(model, work, numEngines, ranksPerEngine),
    train: trained + measured + gathered + work.trajectories * HOST_PER_TRAJECTORY.train,
    sync: isApart ? bytes / LINK_BANDWIDTH : (2 * bytes) / DECODE_BANDWIDTH,
  };
}

/** Forward and backward over packed rows. Adapters need no gradients of the weights themselves. */
export function trainSeconds(
  model: CausalLmConfig,
  tokens: number,
  { recomputes, hasAdapters }: Pick<StepWork, "recomputes" | "hasAdapters">,
): number {
  const factor = (hasAdapters ? 4 : 6) * (recomputes ? RECOMPUTE : 1);
  return (tokens * factor * computedParameters(model)) / (PEAK_FLOPS * SHARES.train);
}

export function forwardSeconds(model: CausalLmConfig, tokens: number): number {
  return (tokens * 2 * computedParameters(model)) / (PEAK_FLOPS * SHARES.forward);
}

/** One step that draws a token for each sequence. On several GPUs each reads its part, and layers are launched operator by operator. */
export function decodeSeconds(model: CausalLmConfig, numSequences: number, context: number, numRanks = 1): number {
  const cachePerToken = 4 * model.numLayers * model.numKeyValueHeads * model.headSize;
  const bytes = 2 * computedParameters(model) + numSequences * context * cachePerToken;
  const perLayer = numRanks === 1 ? SECONDS_PER_LAYER : HOST_PER_LAYER.forward;
  return bytes / (numRanks * DECODE_BANDWIDTH) + model.numLayers * perLayer;
}

function rolloutSeconds(model: CausalLmConfig, work: StepWork, numEngines: number, numRanks: number): number {
  const { trajectories, groupSize, promptTokens, replyTokens, maxRunning } = work;
  const perEngine = trajectories / numEngines;
  const running = Math.max(1, Math.min(maxRunning, perEngine));
  const step = decodeSeconds(model, running, promptTokens + replyTokens / 2, numRanks);
  const decode = (perEngine / running) * replyTokens * step;
  // The samples of a prompt pay for it once.
  const prompts = Math.max(1, perEngine / groupSize);
  const prefill = (prompts * promptTokens * 2 * computedParameters(model)) / (numRanks * PEAK_FLOPS * SHARES.prefill);
  const told = trajectories * replyTokens * HOST_PER_TOKEN;
  return trajectories * HOST_PER_TRAJECTORY.rollout + prefill + Math.max(decode, told);
}

/** Parameters that a token is multiplied with: all but an embedding of its own, and of experts those that are asked. */
function computedParameters(model: CausalLmConfig): number {
  const { experts } = model.features;
  const embedding = model.tieEmbeddings ? 0 : model.vocabSize * model.width;
  const idle =
    experts === null ? 0 : (experts.numExperts - experts.numActive) * 3 * experts.width * model.width * model.numLayers;
  return countParameters(model) - embedding - idle;
}
