/**
 * What a run needs in memory, part by part, from the shape of its model. Pure.
 *
 * Numbers are bytes. Counted is what has a known size; the scores of attention over long rows, where there is no flash
 * kernel, and what Node and libtorch need themselves are not. What a layer keeps is fitted to a training step of Qwen2.5-0.5B on an
 * H200, and with `training.recompute` to that and to GRPO of a 7B shape: within 7 % of their peaks (`npm run bench -- plan`).
 */
import { blockBytes, numStateSlots, stateSlotBytes } from "../generation/local/paged-cache.ts";
import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import type { CausalLmConfig } from "../models/causal-lm/config.ts";
import { loraSites } from "../models/causal-lm/lora.ts";
import { chunkBytes } from "../models/causal-lm/score-chunks.ts";
import type { OptimizerOptions } from "../training/trainer-options.ts";
import { cachedShape, weightShare } from "./engine-shares.ts";
import { pastIntervals } from "./player-options.ts";
import type { RunConfig } from "./run-config.ts";

/** One thing that takes memory. */
export interface MemoryPart {
  readonly owner: "trainer" | "engine" | "past version" | "reference" | "critic" | "teacher" | "reward model";
  readonly what: string;
  readonly bytes: number;
  /** When it is there, where that is not all the time: in a rollout; in a training step, or only while it measures or makes its updates. */
  readonly phase?: "rollout" | "step" | "measuring" | "training";
}

/** What is needed at once: all of it, or what stays and the larger of two phases that take turns. */
export function peakBytes(parts: readonly MemoryPart[], takesTurns: boolean): number {
  const sum = (phase: MemoryPart["phase"]) =>
    parts.reduce((total, part) => total + (part.phase === phase ? part.bytes : 0), 0);
  const rollout = sum("rollout");
  const training = sum("step") + Math.max(sum("measuring"), sum("training"));
  return sum(undefined) + (takesTurns ? Math.max(rollout, training) : rollout + training);
}

/** What decides the memory of a run, beside its config. */
export interface MemoryFacts {
  readonly model: CausalLmConfig;
  readonly isOnGpu: boolean;
  readonly dtype: "float32" | "bfloat16";
  readonly needsReference: boolean;
  /** Whether the policy measures the batch before its first update. Default true. */
  readonly needsAnchor?: boolean;
  readonly hasCritic: boolean;
  /** Whether the engine reads the trainer's weights, and has none of its own. Default false. */
  readonly isEngineLent?: boolean;
  /** Models from folders of their own that are on the run's device. Default: none. */
  readonly roles?: RoleShapes;
}

/** A reward model, in the number format that it is loaded in, and the device it runs on. */
interface RewardModelShape {
  readonly shape: CausalLmConfig;
  readonly device: string;
}

/** The models beside the policy that have folders of their own; null for roles that start as the policy does. */
export interface RoleShapes {
  readonly critic: CausalLmConfig | null;
  readonly reference: CausalLmConfig | null;
  readonly teachers: readonly CausalLmConfig[];
  readonly rewardModels: readonly RewardModelShape[];
}

export const NO_ROLES: RoleShapes = { critic: null, reference: null, teachers: [], rewardModels: [] };

/** The keys of a run file that decide what a trainer takes. */
interface TrainedModel {
  readonly model: Pick<RunConfig["model"], "lora" | "quantization">;
  readonly training: Pick<RunConfig["training"], "optimizer" | "recompute">;
}

/** Every part, the largest owner first. */
export function estimateMemory(config: RunConfig, facts: MemoryFacts): MemoryPart[] {
  const { model, dtype, needsReference, hasCritic, roles = NO_ROLES } = facts;
  const weights = countParameters(model) * bytesPer(dtype);
  const critic = roles.critic ?? model;
  const numInCritic = hasCritic ? countParameters(critic) : 0;
  const { placement } = config;
  // A critic that sleeps is in host memory while a rollout lasts.
  const whileAwake = placement.critic.sleep ? "step" : undefined;
  const hasOwnReference = needsReference && (config.reference !== null || config.model.lora === null);
  const teachesItself = Object.values(config.distillation?.teachers ?? {}).some(
    (teacher) => teacher.type === "self" && teacher.weights === "start",
  );
  // The weights that a run starts from are loaded once, whether as a reference or as a teacher.
  const engineShare = weightShare(expertShare(model), placement.engine);
  const hasOwnStart = teachesItself && config.model.lora === null && !(needsReference && config.reference === null);
  return [
    ...trainerMemory(config, facts, microbatchTokens(config)).map((one) =>
      placement.trainer.sleep && one.what === "optimizer" ? { ...one, phase: "step" as const } : one,
    ),
    ...(hasCritic
      ? [
          part("critic", "weights", numInCritic * bytesPer(dtype), whileAwake),
          part("critic", "gradients", numInCritic * bytesPer(dtype), whileAwake),
          part("critic", "optimizer", numInCritic * optimizerBytes(dtype, config.critic.optimizer), whileAwake),
          // Its graph is held beside that of the policy until the joint backward pass.
          part(
            "critic",
            "activations of a microbatch",
            activationBytes(config, { ...facts, model: critic }, microbatchTokens(config)),
            "training",
          ),
        ]
      : []),
    ...(hasOwnReference
      ? [
          {
            ...weightsOf("reference", roles.reference ?? model, dtype),
            ...(placement.reference.sleep && { phase: "measuring" as const }),
          },
        ]
      : []),
    ...(hasOwnStart ? [part("teacher", "weights", weights)] : []),
    ...roles.teachers.map((shape) => weightsOf("teacher", shape, dtype)),
    ...roles.rewardModels.map(({ shape }) => ({
      ...weightsOf("reward model", shape),
      ...(placement.reward.sleep && { phase: "rollout" as const }),
    })),
    ...(config.engine.remote === null
      ? [
          ...(facts.isEngineLent === true ? [] : [part("engine", "weights", engineBytes(config, facts) * engineShare)]),
          ...cacheParts("engine", config, facts, "rollout"),
        ]
      : []),
    ...pastIntervals(config.players).flatMap(() => [
      part("past version", "weights", weights * engineShare),
      ...cacheParts("past version", config, facts),
    ]),
  ];
}

/** What the worker of a reference apart from the trainer takes beside the weights. */
export function measuringMemory(
  facts: Pick<MemoryFacts, "model" | "dtype" | "isOnGpu">,
  numTokens: number,
): MemoryPart {
  return part("reference", "a chunk of logits", scoreBytes(facts, numTokens), "measuring");
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
  const { optimizer, recompute } = config.training;
  const logits = scoreBytes(facts, numTokens);
  // Scores are gone before the first layer is computed again: only what they take beyond that counts.
  const again = recompute ? Math.min(logits, layerAgainBytes(facts, numTokens)) : 0;
  return [
    part("trainer", "weights", baseBytes(model, dtype, quantization) + (lora === null ? 0 : trained * width)),
    part("trainer", "gradients", trained * width),
    part("trainer", "optimizer", trained * optimizerBytes(dtype, optimizer)),
    part("trainer", "activations of a microbatch", activationBytes(config, facts, numTokens), "training"),
    part("trainer", "a chunk of logits", logits - again, "training"),
  ];
}

/** The weights of a model that never changes. Default format: its own. */
export function weightsOf(
  owner: MemoryPart["owner"],
  shape: CausalLmConfig,
  dtype: CausalLmConfig["dtype"] = shape.dtype,
): MemoryPart {
  return part(owner, "weights", countParameters(shape) * bytesPer(dtype));
}

/** The weights of an engine that has its own. In 8-bit floats they take less where the device has those. */
function engineBytes({ engine, model }: RunConfig, { model: shape, dtype, isOnGpu }: MemoryFacts): number {
  const quantization = engine.quantization === null ? model.quantization : isOnGpu ? engine.quantization : null;
  return baseBytes(shape, dtype, quantization);
}

/** The weights of a model whose linear layers may be quantized: then a bit over 8 or 4 bits each, with their scales. */
function baseBytes(
  shape: CausalLmConfig,
  dtype: MemoryFacts["dtype"],
  quantization: RunConfig["model"]["quantization"] | "fp8",
): number {
  const all = countParameters(shape) * bytesPer(dtype);
  if (quantization === null) return all;
  const linear = countOnShapes(shape, (model) =>
    loraSites(model, "all-linear").reduce((sum, { part, inputWidth }) => sum + part.width * inputWidth, 0),
  );
  // A float32 scale for every 32 values; for every row, which is next to nothing, in 8-bit floats.
  const bytesPerValue = quantization === "fp8" ? 1 : (quantization === "int8" ? 1 : 0.5) + 4 / 32;
  return all - linear * (bytesPer(dtype) - bytesPerValue);
}

/** Parameters of a model, as its checkpoint holds them. */
export function countParameters(config: CausalLmConfig): number {
  const count =
    counted.get(config) ??
    countOnShapes(config, (model) => model.parameters().reduce((sum, { numel }) => sum + numel, 0));
  counted.set(config, count);
  return count;
}

/** The share of a model's parameters that is in its experts. */
export function expertShare(model: CausalLmConfig): number {
  const { experts } = model.features;
  if (experts === null) return 0;
  return (3 * experts.numExperts * experts.width * model.width * model.numLayers) / countParameters(model);
}

/** A plan asks for the same shape many times. */
const counted = new WeakMap<CausalLmConfig, number>();
const adapted = new WeakMap<CausalLmConfig, number>();

/** Parameters of adapters on every linear layer, which is the most that targets can name. */
function countLora(config: CausalLmConfig, rank: number): number {
  const widths =
    adapted.get(config) ??
    countOnShapes(config, (model) =>
      loraSites(model, "all-linear").reduce((sum, { part, inputWidth }) => sum + part.width + inputWidth, 0),
    );
  adapted.set(config, widths);
  return rank * widths;
}

/** Counts on a model that has shapes and no values. */
function countOnShapes(config: CausalLmConfig, count: (model: CausalLm) => number): number {
  const model = new CausalLm(config, { device: "meta" });
  const counted = count(model);
  model.dispose();
  return counted;
}

/** Two moments, and a float32 copy of 16-bit weights, which also makes full moments float32. Codes of 8 bits have a scale per 256. */
function optimizerBytes(dtype: MemoryFacts["dtype"], { masterWeights, moments }: OptimizerOptions): number {
  const hasCopy = dtype === "bfloat16" && masterWeights;
  const full = dtype === "float32" || hasCopy ? 8 : 4;
  return (hasCopy ? 4 : 0) + { full, bfloat16: 4, "8-bit": 2 + 8 / 256 }[moments];
}

/** Tokens in one forward and backward pass: no more than a minibatch has. */
export function microbatchTokens({ rollout, training }: RunConfig): number {
  const trajectories = training.minibatch || rollout.groupsPerStep * rollout.groupSize;
  return Math.min(training.maxTokensPerMicrobatch, trajectories * rollout.contextLength);
}

/**
 * What the graph of a layer keeps per token: two norms with their inputs (4 D), the projections before and after rotation, the
 * output of attention, and input, output of the gate (3 F; on a GPU its output is made again: see swigluLinear).
 */
function activationBytes(
  { training, model: { lora } }: TrainedModel,
  { model, dtype, isOnGpu }: Pick<MemoryFacts, "model" | "dtype" | "isOnGpu">,
  numTokens: number,
): number {
  const { width: D, numLayers, mlpWidth, features } = model;
  const { experts, hasGeluGate, hasMlpBias } = features;
  // With recompute, each layer keeps its input, and one at a time is computed again.
  if (training.recompute)
    return numTokens * numLayers * D * bytesPer(dtype) + layerAgainBytes({ model, dtype }, numTokens);
  const isMadeAgain = isOnGpu && lora === null && experts === null && !hasGeluGate && !hasMlpBias;
  return numTokens * numLayers * (layerValues(model) - (isMadeAgain ? mlpWidth : 0)) * bytesPer(dtype);
}

/** A layer that is computed again: what its graph keeps, and the gradients of that. Fitted: see the head of this file. */
function layerAgainBytes({ model, dtype }: Pick<MemoryFacts, "model" | "dtype">, numTokens: number): number {
  return 3.5 * numTokens * layerValues(model) * bytesPer(dtype);
}

/** Values that the graph of a layer keeps per token. */
function layerValues({ width: D, headSize: K, numHeads: H, numKeyValueHeads: G, mlpWidth, features }: CausalLmConfig) {
  const { experts, hasHeadNorm } = features;
  const innerWidth = experts === null ? mlpWidth : experts.numActive * experts.width;
  return 4 * D + 2 * (H + 2 * G) * K + (hasHeadNorm ? (H + G) * K : 0) + H * K + 3 * innerWidth;
}

/** The share of them that is of the width of the model, and so on every rank that splits a layer. */
export function residualShare(model: CausalLmConfig): number {
  return (4 * model.width) / layerValues(model);
}

/** Scores are computed for as many tokens as a chunk has room for, see score-chunks.ts: on a GPU in float32, of fewer tokens, and on the CPU with a copy. */
function scoreBytes(
  { model, dtype, isOnGpu }: Pick<MemoryFacts, "model" | "dtype" | "isOnGpu">,
  numTokens: number,
): number {
  const chunk = Math.min(isOnGpu ? chunkBytes.gpu : chunkBytes.cpu, numTokens * model.vocabSize * bytesPer(dtype));
  return (isOnGpu ? 4 / 3 : 2) * chunk;
}

/** What an engine keeps of the tokens it has seen. */
function cacheParts(
  owner: MemoryPart["owner"],
  config: RunConfig,
  facts: MemoryFacts,
  phase?: MemoryPart["phase"],
): MemoryPart[] {
  const cache = part(owner, "KV cache", cacheBytes(config, facts), phase);
  if (facts.model.features.linearAttention === null) return [cache];
  return [cache, part(owner, "states of linear attention", statesBytes(config, facts), phase)];
}

/** Full contexts of all running sequences, at most 20 GB on a GPU or 1 GB on the CPU: see engine-options.ts. */
function cacheBytes(config: RunConfig, { model, dtype, isOnGpu }: MemoryFacts): number {
  const { cacheQuantization } = config.engine;
  const place = { dtype, device: isOnGpu ? "cuda" : "cpu", cacheQuantization };
  const perToken = blockBytes(cachedShape(model, config.placement.engine), 1, place);
  const context = config.rollout.contextLength * perToken;
  return Math.max(context, Math.min(isOnGpu ? 20e9 : 1e9, numRunning(config) * context));
}

function statesBytes(config: RunConfig, { model, dtype }: MemoryFacts): number {
  return numStateSlots(numRunning(config)) * stateSlotBytes(model, dtype);
}

function numRunning({ engine, rollout }: RunConfig): number {
  return engine.maxRunning ?? Math.min(256, rollout.maxInFlight);
}

function bytesPer(dtype: CausalLmConfig["dtype"]): number {
  return dtype === "float32" ? 4 : 2;
}

function part(owner: MemoryPart["owner"], what: string, bytes: number, phase?: MemoryPart["phase"]): MemoryPart {
  return { owner, what, bytes, ...(phase !== undefined && { phase }) };
}
