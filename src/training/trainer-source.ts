/** From plain data to a trainer: what a trainer's thread is started with, and how it is built there. */
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { CausalLm } from "../models/causal-lm/causal-lm.ts";
import { loadCausalLm } from "../models/causal-lm/load-causal-lm.ts";
import { addLora } from "../models/causal-lm/lora.ts";
import { ValueHead } from "../models/causal-lm/value-head.ts";
import { withPrefix } from "../torch/optim/parameter-group.ts";
import { Generator } from "../torch/random.ts";
import { TokenTrainer, type TrainedCritic } from "./token-trainer.ts";
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
  readonly dtype: "float32" | "bfloat16";
  readonly lora: LoraSource | null;
  /** Where KL needs a reference: its folder, or "base" for the model without its adapters. */
  readonly reference: string | null;
  readonly critic: CriticSource | null;
  readonly algorithm: RecipeChoice;
  readonly training: TrainingOptions;
  readonly length: RunLength;
  /** That of sampling. */
  readonly temperature: number;
  readonly seed: number;
  /** Threads of one operator. */
  readonly numThreads?: number;
}

export interface LoraSource {
  readonly rank: number;
  readonly alpha: number;
  readonly targets: readonly string[] | "all-linear";
}

export interface CriticSource {
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
}

export function loadPolicy({ modelFolder, device, dtype, lora, seed }: TrainerSource): CausalLm {
  const model = loadCausalLm(modelFolder, { device, dtype });
  if (lora !== null) {
    const generator = new Generator(seed);
    addLora(model, { ...lora, generator });
    generator.dispose();
  }
  return model;
}

export function buildTrainer(source: TrainerSource, model: CausalLm): TrainerParts {
  const { device, dtype, training, algorithm, length, temperature, seed } = source;
  const recipe = buildRecipe(algorithm);
  const optimizer = buildOptimizer(model.namedParameters(), training.optimizer);
  const critic = source.critic === null ? null : buildCritic(source.critic, { device, dtype });
  const reference =
    source.reference === null || source.reference === "base"
      ? source.reference
      : loadCausalLm(source.reference, { device, dtype }).setTrainable(false);
  const { minibatch, maxTokensPerMicrobatch, maxGradNorm, checkpoint } = training;
  const trainer = new TokenTrainer({
    model,
    recipe,
    optimizer,
    schedule: buildSchedule(training.schedule, length),
    reference,
    critic,
    options: { temperature, minibatchTrajectories: minibatch, maxTokensPerMicrobatch, maxGradNorm, checkpoint, seed },
  });
  return { model, trainer, optimizer, critic };
}

function buildCritic(
  { modelFolder, optimizer, warmupUpdates }: CriticSource,
  place: { readonly device: string; readonly dtype: "float32" | "bfloat16" },
): TrainedCritic {
  const model = loadCausalLm(modelFolder, place);
  const head = new ValueHead(model.config.width, { device: place.device });
  const parameters = new Map([
    ...withPrefix("model", model.namedParameters()),
    ...withPrefix("head", head.namedParameters()),
  ]);
  return { model, head, optimizer: buildOptimizer(parameters, optimizer), warmupUpdates };
}
