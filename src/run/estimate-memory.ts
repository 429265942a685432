/**
 * What a run needs in memory, part by part, from the shape of its model. Pure.
 *
 * Numbers are bytes. Counted is what has a known size; the scores of attention over long rows, where there is no flash
 * kernel, and what Node and libtorch need themselves are not. What a layer keeps is fitted to one measurement, a
 * training step of Qwen2.5-0.5B on an H200: within 10 % of its peak, and 25 % with `training.recompute`.
 */
import { numCachedValues } from "../models/causal-lm/cached-values.ts";
import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { loraSites } from "../models/causal-lm/lora.ts";
import type { RunConfig } from "./run-config.ts";

/** One thing that takes memory. */
export interface MemoryPart {
  readonly owner: "trainer" | "engine" | "reference" | "critic" | "teacher";
  readonly what: string;
  readonly bytes: number;
}

/** What decides the memory of a run, beside its config. */
interface MemoryFacts {
  readonly model: CausalLmConfig;
  readonly isOnGpu: boolean;
  readonly dtype: "float32" | "bfloat16";
  readonly needsReference: boolean;
  readonly hasCritic: boolean;
  /** Shapes of teachers from folders of their own. Default: none. */
  readonly teachers?: readonly CausalLmConfig[];
}

/** The keys of a run file that decide what a trainer takes. */
interface TrainedModel {
  readonly model: Pick<RunConfig["model"], "lora" | "quantization">;
  readonly training: Pick<RunConfig["training"], "optimizer" | "recompute">;
}

/** Every part, the largest owner first. */
export function estimateMemory(config: RunConfig, facts: MemoryFacts): MemoryPart[] {
  const { model, dtype, needsReference, hasCritic, teachers = [] } = facts;
  const all = countParameters(model);
  const weights = all * bytesPer(dtype);
  const hasOwnReference = needsReference && (config.reference !== null || config.model.lora === null);
  const activations = activationBytes(config, facts, microbatchTokens(config));
  const teachesItself = Object.values(config.distillation?.teachers ?? {}).some(
    (teacher) => teacher.type === "self" && teacher.weights === "start",
  );
  // The weights that a run starts from are loaded once, whether as a reference or as a teacher.
  const hasOwnStart = teachesItself && config.model.lora === null && !(needsReference && config.reference === null);
  return [
    ...trainerMemory(config, facts, microbatchTokens(config)),
    ...(hasCritic
      ? [
          part("critic", "weights", weights),
          part("critic", "gradients", weights),
          part("critic", "optimizer", all * optimizerBytes(dtype, config.critic.optimizer.masterWeights)),
          // Its graph is held beside that of the policy until the joint backward pass.
          part("critic", "activations of a microbatch", activations),
        ]
      : []),
    ...(hasOwnReference ? [part("reference", "weights", weights)] : []),
    ...(hasOwnStart ? [part("teacher", "weights", weights)] : []),
    ...teachers.map((shape) => weightsOf("teacher", shape, dtype)),
    ...(config.engine.remote === null
      ? [
          part("engine", "weights", baseBytes(model, dtype, config.model.quantization)),
          part("engine", "KV cache", cacheBytes(config, facts)),
        ]
      : []),
  ];
}

/** What one trainer takes for a policy, by the tokens of a forward and backward pass. */
export function trainerMemory(
  config: TrainedModel,
  facts: Pick<MemoryFacts, "model" | "dtype" | "isOnGpu">,
  numTokens: number,
): MemoryPart[] {
  const { model, dtype } = facts;
  const width = bytesPer(dtype);
  const all = countParameters(model);
  const { lora, quantization } = config.model;
  const trained = lora === null ? all : countLora(model, lora.rank);
  const { optimizer } = config.training;
  return [
    part("trainer", "weights", baseBytes(model, dtype, quantization) + (lora === null ? 0 : trained * width)),
    part("trainer", "gradients", trained * width),
    part("trainer", "optimizer", trained * optimizerBytes(dtype, optimizer.masterWeights)),
    part("trainer", "activations of a microbatch", activationBytes(config, facts, numTokens)),
    part("trainer", "a chunk of logits", 2 * chunkBytes(facts, numTokens)),
  ];
}

/** The weights of a model that never changes. */
export function weightsOf(owner: MemoryPart["owner"], shape: CausalLmConfig, dtype: MemoryFacts["dtype"]): MemoryPart {
  return part(owner, "weights", countParameters(shape) * bytesPer(dtype));
}

/** The weights of a model whose linear layers may be quantized: then a bit over 8 or 4 bits each, with their scales. */
function baseBytes(
  shape: CausalLmConfig,
  dtype: MemoryFacts["dtype"],
  quantization: RunConfig["model"]["quantization"],
): number {
  const all = countParameters(shape) * bytesPer(dtype);
  if (quantization === null) return all;
  const linear = countOnShapes(shape, (model) =>
    loraSites(model, "all-linear").reduce((sum, { part, inputWidth }) => sum + part.width * inputWidth, 0),
  );
  // A float32 scale for every 32 values.
  const bytesPerValue = (quantization === "int8" ? 1 : 0.5) + 4 / 32;
  return all - linear * (bytesPer(dtype) - bytesPerValue);
}

/** Parameters of a model, as its checkpoint holds them. */
export function countParameters(config: CausalLmConfig): number {
  return countOnShapes(config, (model) => model.parameters().reduce((sum, { numel }) => sum + numel, 0));
}

/** Parameters of adapters on every linear layer, which is the most that targets can name. */
function countLora(config: CausalLmConfig, rank: number): number {
  return countOnShapes(config, (model) =>
    loraSites(model, "all-linear").reduce((sum, { part, inputWidth }) => sum + rank * (part.width + inputWidth), 0),
  );
}

/** Counts on a model that has shapes and no values. */
function countOnShapes(config: CausalLmConfig, count: (model: CausalLm) => number): number {
  const model = new CausalLm(config, { device: "meta" });
  const counted = count(model);
  model.dispose();
  return counted;
}

/** Two moments, and a float32 copy of 16-bit weights, which also makes the moments float32. */
function optimizerBytes(dtype: MemoryFacts["dtype"], hasMasters: boolean): number {
  if (dtype === "float32") return 8;
  return hasMasters ? 12 : 4;
}

/** Tokens in one forward and backward pass: no more than a minibatch has. */
export function microbatchTokens({ rollout, training }: RunConfig): number {
  const trajectories = training.minibatch || rollout.groupsPerStep * rollout.groupSize;
  return Math.min(training.maxTokensPerMicrobatch, trajectories * rollout.contextLength);
}

/**
 * What the graph of a layer keeps per token: two norms with their inputs (4 D), the projections before and after rotation, the
 * output of attention, and input, output of the gate (3 F).
 */
function activationBytes(
  { training }: TrainedModel,
  { model, dtype }: Pick<MemoryFacts, "model" | "dtype">,
  numTokens: number,
): number {
  const { width: D, headSize: K, numHeads: H, numKeyValueHeads: G, numLayers, features } = model;
  const { experts, hasHeadNorm } = features;
  const mlpWidth = experts === null ? model.mlpWidth : experts.numActive * experts.width;
  const layer = 4 * D + 2 * (H + 2 * G) * K + (hasHeadNorm ? (H + G) * K : 0) + H * K + 3 * mlpWidth;
  // With recompute, each layer keeps its input, and one layer at a time is computed again.
  const kept = training.recompute ? numLayers * D + 2 * layer : numLayers * layer;
  return numTokens * kept * bytesPer(dtype);
}

/** Scores are computed for as many tokens as 64 MB on the CPU or 1 GB on a GPU hold: see token-logprobs.ts. */
function chunkBytes(
  { model, dtype, isOnGpu }: Pick<MemoryFacts, "model" | "dtype" | "isOnGpu">,
  numTokens: number,
): number {
  return Math.min(isOnGpu ? 1e9 : 64e6, numTokens * model.vocabSize * bytesPer(dtype));
}

/** Full contexts of all running sequences, at most 20 GB on a GPU or 1 GB on the CPU: see engine-options.ts. */
function cacheBytes({ rollout, engine }: RunConfig, { model, dtype, isOnGpu }: MemoryFacts): number {
  const perToken = numCachedValues(model) * bytesPer(dtype);
  const running = engine.maxRunning ?? Math.min(256, rollout.maxInFlight);
  const context = rollout.contextLength * perToken;
  return Math.max(context, Math.min(isOnGpu ? 20e9 : 1e9, running * context));
}

function bytesPer(dtype: MemoryFacts["dtype"]): number {
  return dtype === "float32" ? 4 : 2;
}

function part(owner: MemoryPart["owner"], what: string, bytes: number): MemoryPart {
  return { owner, what, bytes };
}
