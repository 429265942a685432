/** From plain data to a trainer: what a trainer's thread is started with, and how it is built there. */
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { loadScoringStart } from "../models/causal-lm/load-scoring-model.ts";
import { addLora, copyLora } from "../models/causal-lm/lora.ts";
import { loadLora } from "../models/causal-lm/lora-files.ts";
import type { Quantization } from "../models/causal-lm/quantized-matrix.ts";
import { joinGroup, openStore } from "../torch/distributed/rendezvous.ts";
import { withPrefix } from "../torch/optim/parameter-group.ts";
import { Generator } from "../torch/random.ts";
import type { Tensor } from "../torch/tensor.ts";
import type { LessonOptions } from "./lessons.ts";
import { createProcessGroupRanks } from "./process-group-ranks.ts";
import type { Teacher, TeachingParts } from "./teaching.ts";
import { TokenTrainer, type TrainedCritic } from "./token-trainer.ts";
import {
  buildOptimizer,
  buildSchedule,
  type OptimizerOptions,
  type RunLength,
  type TrainingOptions,
} from "./trainer-options.ts";
import type { TrainerRanks } from "./trainer-ranks.ts";

export interface TrainerSource {
  /** A Hugging Face folder. */
  readonly modelFolder: string;
  /** Files to put beside saved weights: those of the tokenizer. */
  readonly tokenizerFolder: string;
  readonly device: string;
  readonly dtype: "float32" | "bfloat16";
  /** Holds the linear layers in fewer bits, under adapters. Absent: as they are. */
  readonly quantization?: Quantization | undefined;
  readonly lora: LoraSource | null;
  /** A folder of adapters to begin with. Absent: new ones, which change nothing yet. */
  readonly adapters?: string;
  /** Folder of the reference model, or "base" for the policy with the adapters it begins with; null for recipes that need none. */
  readonly reference: string | null;
  readonly critic: CriticSource | null;
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
  /** Threads of one operator. */
  readonly numThreads?: number;
  /** Which of several trainers that share each batch this is; absent for the only one. */
  readonly rank?: RankSource;
}

/** The place of a rank among the others, and the port of the store where they meet. */
export interface RankSource {
  readonly rank: number;
  readonly numRanks: number;
  readonly port: number;
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

interface CriticSource {
  /** A language model, or a reward model, whose head the values then start from. */
  readonly modelFolder: string;
  readonly optimizer: OptimizerOptions;
  readonly warmupUpdates: number;
}

/** Everything a trainer works on. */
export interface TrainerParts {
  readonly model: CausalLm;
  readonly trainer: TokenTrainer;
  readonly optimizer: ReturnType<typeof buildOptimizer>;
  readonly critic: TrainedCritic | null;
  readonly ranks: TrainerRanks | undefined;
}

/** The model that is trained, with adapters where there are some. `model`: the weights, where they are loaded already. */
export function loadPolicy(
  {
    modelFolder,
    device,
    dtype,
    quantization,
    lora,
    adapters,
    seed,
  }: Pick<TrainerSource, "modelFolder" | "device" | "dtype" | "quantization" | "lora" | "adapters" | "seed">,
  model = loadCausalLm(modelFolder, { device, dtype, quantization }),
): CausalLm {
  if (lora !== null && adapters !== undefined) loadLora(model, adapters);
  else if (lora !== null) {
    const generator = new Generator(seed);
    addLora(model, { ...lora, generator });
    generator.dispose();
  }
  return model;
}

/** Resolves when all ranks are there. They then have the weights of rank 0. */
export async function buildTrainer(source: TrainerSource, model: CausalLm): Promise<TrainerParts> {
  const { device, dtype, training, algorithm, length, temperature, seed, rank } = source;
  const recipe = buildRecipe(algorithm);
  const optimizer = buildOptimizer(model.namedParameters(), training.optimizer);
  const critic = source.critic === null ? null : buildCritic(source.critic, { device, dtype });
  const ranks = rank === undefined ? undefined : await joinRanks(rank, device, parametersOf(model, critic));
  const load = frozenModels(source);
  const reference = source.reference === null ? null : openFrozen(source, model, source.reference, load);
  const { distillation, lessons } = source;
  const { minibatch, maxTokensPerMicrobatch, maxGradNorm, recompute } = training;
  const trainer = new TokenTrainer({
    model,
    recipe,
    optimizer,
    schedule: buildSchedule(training.schedule, length),
    reference,
    critic,
    ...(distillation !== undefined && { teaching: openTeachers(source, distillation, model, load) }),
    ...(lessons !== undefined && { lessons }),
    ...(ranks !== undefined && { ranks }),
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
  return { model, trainer, optimizer, critic, ranks };
}

/** Loads models that never change, each folder once. */
function frozenModels({ device, dtype }: TrainerSource): (folder: string) => CausalLm {
  const loaded = new Map<string, CausalLm>();
  return (folder) => {
    const model = loaded.get(folder) ?? loadCausalLm(folder, { device, dtype }).setTrainable(false);
    loaded.set(folder, model);
    return model;
  };
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

function buildCritic(
  { modelFolder, optimizer, warmupUpdates }: CriticSource,
  place: { readonly device: string; readonly dtype: "float32" | "bfloat16" },
): TrainedCritic {
  const { decoder: model, head } = loadScoringStart(modelFolder, place);
  return { model, head, optimizer: buildOptimizer(criticParameters({ model, head }), optimizer), warmupUpdates };
}

function criticParameters({ model, head }: Pick<TrainedCritic, "model" | "head">): ReadonlyMap<string, Tensor> {
  return new Map([...withPrefix("model", model.namedParameters()), ...withPrefix("head", head.namedParameters())]);
}

function parametersOf(model: CausalLm, critic: TrainedCritic | null): ReadonlyMap<string, Tensor> {
  if (critic === null) return model.namedParameters();
  return new Map([...model.namedParameters(), ...withPrefix("critic", criticParameters(critic))]);
}

/** Meets the other ranks. All then have the values of rank 0. */
export async function joinRanks(
  { rank, numRanks, port }: RankSource,
  device: string,
  parameters: ReadonlyMap<string, Tensor>,
): Promise<TrainerRanks> {
  const store = await openStore({ type: "tcp", host: "127.0.0.1", port, isServer: false });
  const backend = device.startsWith("cuda") ? "nccl" : "gloo";
  const group = await joinGroup({ store, backend, rank, worldSize: numRanks, name: "trainer", device });
  return createProcessGroupRanks(group, parameters);
}
