/** From plain data to a trainer: what a trainer's thread is started with, and how it is built there. */
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loadScoringStart } from "../models/causal-lm/load-scoring-model.ts";
import { addLora, copyLora } from "../models/causal-lm/lora.ts";
import { loadLora } from "../models/causal-lm/lora-files.ts";
import type { Quantization } from "../models/causal-lm/quantized-matrix.ts";
import type { Optimizer } from "../torch/optim/optimizer.ts";
import { type NamedParameters, withPrefix } from "../torch/optim/parameter-group.ts";
import { Generator } from "../torch/random.ts";
import type { LessonOptions } from "./lessons.ts";
import { SleepingModel } from "./roles/sleeping-model.ts";
import { joinMesh, meshOfOne, type RankSource } from "./strategy/mesh.ts";
import { spreadStrategy } from "./strategy/spread-strategy.ts";
import type { StrategyBuilder } from "./strategy/strategy.ts";
import type { StrategyOptions } from "./strategy/strategy-options.ts";
import type { Teacher, TeachingParts } from "./teaching.ts";
import { type Elsewhere, TokenTrainer, type TrainedCritic } from "./token-trainer.ts";
import {
  buildOptimizer,
  buildSchedule,
  type OptimizerOptions,
  type RunLength,
  type TrainingOptions,
} from "./trainer-options.ts";

export interface TrainerSource {
  /** A Hugging Face folder. */
  readonly modelFolder: string;
  /** Files to put beside saved weights: those of the tokenizer. */
  readonly tokenizerFolder: string;
  readonly device: string;
  /** The device of each rank. Default: on GPUs one after the other from cuda:0, else the one device. */
  readonly devices?: readonly string[];
  readonly dtype: "float32" | "bfloat16";
  /** Holds the linear layers in fewer bits, under adapters. Absent: as they are. */
  readonly quantization?: Quantization | undefined;
  readonly lora: LoraSource | null;
  /** A folder of adapters to begin with. Absent: new ones, which change nothing yet. */
  readonly adapters?: string;
  /** Folder of the reference model, or "base" for the policy with the adapters it begins with; null for recipes that need none. */
  readonly reference: string | null;
  readonly critic: CriticSource | null;
  /** Roles in workers of their own, which every step is told how to ask. Absent: none. */
  readonly elsewhere?: Elsewhere;
  /** What is in host memory while this trainer does not need it. Absent: nothing. */
  readonly sleeping?: readonly ("reference" | "critic" | "optimizer")[];
  /** Teachers to learn from. Absent: none. */
  readonly distillation?: DistillationSource;
  /** How second tries that succeeded are learned. Absent: batches have none. */
  readonly lessons?: LessonOptions;
  readonly algorithm: RecipeChoice;
  readonly training: TrainingOptions;
  readonly length: RunLength;
  /** The temperature the tokens were sampled with. */
  readonly temperature: number;
  readonly seed: number;
  /** Whether kernels add up in an order that does not depend on what else is in a batch: see useExactKernels. Absent: they do not. */
  readonly isExact?: boolean;
  /** Threads of one operator. */
  readonly numThreads?: number;
  /** Which of several trainers that share each batch this is; absent for the only one. */
  readonly rank?: RankSource;
}

interface LoraSource {
  readonly rank: number;
  readonly alpha: number;
  readonly targets: readonly string[] | "all-linear";
}

/** The teachers of a run by name, and how it learns from them. */
export interface DistillationSource extends Omit<TeachingParts, "teachers"> {
  readonly teachers: Readonly<Record<string, TeacherSource>>;
}

/** A frozen model; or the policy, as it began or as it is. */
export type TeacherSource =
  | { readonly type: "folder"; readonly folder: string }
  | { readonly type: "start" }
  | { readonly type: "current" };

export interface CriticSource {
  /** A language model, or a reward model, whose head the values then start from. */
  readonly modelFolder: string;
  readonly optimizer: OptimizerOptions;
  readonly warmupUpdates: number;
}

/** Everything a trainer works on. */
export interface TrainerParts {
  readonly model: CausalLm;
  readonly trainer: TokenTrainer;
  readonly optimizer: Optimizer;
  readonly critic: TrainedCritic | null;
  /** A frozen model that only the reference is; null where it is none, or the policy as it began. */
  readonly reference: CausalLm | null;
  readonly strategy: StrategyBuilder;
}

/** The model that is trained, with adapters where there are some. `model`: the weights, where they are loaded already. */
export function loadPolicy(
  {
    modelFolder,
    dtype,
    quantization,
    lora,
    adapters,
    seed,
  }: Pick<TrainerSource, "modelFolder" | "dtype" | "quantization" | "lora" | "adapters" | "seed">,
  { spread, loadDevice: device }: Pick<StrategyBuilder, "spread" | "loadDevice">,
  model = loadCausalLm(modelFolder, { device, dtype, spread, quantization }),
): CausalLm {
  if (lora !== null && adapters !== undefined) loadLora(model, adapters);
  else if (lora !== null) {
    const generator = new Generator(seed);
    addLora(model, { ...lora, generator });
    generator.dispose();
  }
  return model;
}

/** Meets the other ranks, where there are some. */
export async function joinStrategy({
  rank,
  device,
  training,
}: Pick<TrainerSource, "rank" | "device"> & {
  readonly training: { readonly strategy: StrategyOptions };
}): Promise<StrategyBuilder> {
  const mesh = rank === undefined ? meshOfOne : await joinMesh(rank, device, training.strategy);
  return spreadStrategy(mesh, training.strategy, device);
}

/** Loads everything that a trainer works on. All ranks then have the weights of rank 0. */
export async function buildTrainer(source: TrainerSource): Promise<TrainerParts> {
  const { dtype, training, algorithm, length, temperature, seed } = source;
  const strategy = await joinStrategy(source);
  const model = loadPolicy(source, strategy);
  const recipe = buildRecipe(algorithm);
  const load = frozenModels(source, strategy);
  // Before the weights may go elsewhere: adapters that are there to begin with are remembered.
  const reference = source.reference === null ? null : openReference(source, model, source.reference, strategy, load);
  const { distillation, lessons } = source;
  const teaching = distillation && openTeachers(source, distillation, model, load);
  const optimizer = await strategy.optimize(model, model.namedParameters(), (parameters, isMatrix) =>
    buildOptimizer(parameters, training.optimizer, isMatrix),
  );
  const critic = source.critic && (await buildCritic(source.critic, strategy, dtype));
  const { minibatch, maxTokensPerMicrobatch, maxGradNorm, recompute } = training;
  const trainer = new TokenTrainer({
    model,
    recipe,
    optimizer,
    schedule: buildSchedule(training.schedule, length),
    reference,
    critic,
    ...(source.elsewhere !== undefined && { elsewhere: source.elsewhere }),
    ...(teaching !== undefined && { teaching }),
    ...(lessons !== undefined && { lessons }),
    strategy,
    options: {
      temperature,
      minibatchTrajectories: minibatch,
      maxTokensPerMicrobatch,
      maxGradNorm,
      updatesPerStep: length.updatesPerRolloutStep,
      recompute,
      seed,
    },
  });
  return { model, trainer, optimizer, critic, reference: modelOf(reference), strategy };
}

/** Loads models that never change, each folder once. */
function frozenModels(
  { dtype }: TrainerSource,
  { spread, hold, loadDevice: device }: StrategyBuilder,
): (folder: string) => CausalLm {
  const loaded = new Map<string, CausalLm>();
  return (folder) => {
    const known = loaded.get(folder);
    if (known !== undefined) return known;
    const model = loadCausalLm(folder, { device, dtype, spread }).setTrainable(false);
    hold(model);
    loaded.set(folder, model);
    return model;
  };
}

function modelOf(reference: Exclude<Teacher, "current"> | null): CausalLm | null {
  if (reference instanceof SleepingModel) return reference.model;
  return reference instanceof CausalLm ? reference : null;
}

/** One that sleeps is nobody else's: a teacher with the same weights would find them gone. */
function openReference(
  source: TrainerSource,
  model: CausalLm,
  folder: string,
  strategy: StrategyBuilder,
  load: (folder: string) => CausalLm,
): Exclude<Teacher, "current"> {
  const { sleeping = [], device } = source;
  if (!sleeping.includes("reference") || device === "cpu" || folder === "base")
    return openFrozen(source, model, folder, load);
  return new SleepingModel(frozenModels(source, strategy)(folder), device);
}

/** New adapters change nothing: only those that were given have to be remembered. */
function openFrozen(
  { adapters }: TrainerSource,
  model: CausalLm,
  folder: string,
  load: (folder: string) => CausalLm,
): Exclude<Teacher, "current"> {
  if (folder === "base") return adapters === undefined ? "base" : copyLora(model);
  return load(folder);
}

function openTeachers(
  source: TrainerSource,
  { teachers, ...options }: DistillationSource,
  model: CausalLm,
  load: (folder: string) => CausalLm,
): TeachingParts {
  const ownStart = source.lora === null ? source.modelFolder : "base";
  const open = (teacher: TeacherSource): Teacher => {
    if (teacher.type === "current") return "current";
    return openFrozen(source, model, teacher.type === "start" ? ownStart : teacher.folder, load);
  };
  return { ...options, teachers: new Map(Object.entries(teachers).map(([name, teacher]) => [name, open(teacher)])) };
}

/** A critic and its optimizer. All ranks then have the weights of rank 0. */
export async function buildCritic(
  { modelFolder, optimizer: options, warmupUpdates }: CriticSource,
  strategy: StrategyBuilder,
  dtype: TrainerSource["dtype"],
): Promise<TrainedCritic> {
  const { spread, loadDevice: device } = strategy;
  const { decoder: model, head } = loadScoringStart(modelFolder, { device, dtype, spread });
  const optimizer = await strategy.optimize(model, criticParameters({ model, head }), (parameters, isMatrix) =>
    buildOptimizer(parameters, options, isMatrix),
  );
  return { model, head, optimizer, warmupUpdates };
}

/** All parameters of a critic, by the names that its optimizer knows. */
function criticParameters({ model, head }: Pick<TrainedCritic, "model" | "head">): NamedParameters {
  return new Map([...withPrefix("model", model.namedParameters()), ...withPrefix("head", head.namedParameters())]);
}
