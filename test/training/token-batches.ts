/** Batches, models and trainers that every process makes alike. */
import { buildRecipe, type RecipeChoice, type RecipeName, recipes } from "../../src/algorithms/recipes/table.ts";
import type { SampleBatch, TokenSample } from "../../src/flow/token-sample.ts";
import { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { ValueHead } from "../../src/models/causal-lm/value-head.ts";
import { wholeWeights } from "../../src/models/causal-lm/whole-weights.ts";
import { deriveSeed, Random } from "../../src/random/random.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { noGrad } from "../../src/torch/autograd.ts";
import { partOf } from "../../src/torch/distributed/split.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { type NamedParameters, withPrefix } from "../../src/torch/optim/parameter-group.ts";
import { constantRate } from "../../src/torch/optim/schedule.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Strategy, StrategyBuilder } from "../../src/training/strategy/strategy.ts";
import { TokenTrainer } from "../../src/training/token-trainer.ts";

/** mixed: groups of several sizes and lengths. lopsided: of two groups only one has loss tokens. single: one group. */
export type BatchName = "mixed" | "lopsided" | "single";

/** A recipe and what shows it. */
export interface RecipeCase {
  readonly name: string;
  readonly choice: RecipeChoice;
  readonly minibatchTrajectories: number;
  readonly batch: BatchName;
}

/** A recipe, and the strategy and the model that two ranks train with. */
export interface TrainingCase extends RecipeCase {
  readonly spread: TwoRanks;
  readonly family: "qwen3" | "qwen3_moe";
}

/** What two ranks share. */
const waysOfTwo = ["rows", "zero 1", "zero 2", "zero 3", "offload", "tensor", "context"] as const;
const waysWithExperts = [...waysOfTwo, "experts", "experts, zero 1", "experts, zero 3"] as const;
/** group: rows, over a process group as those join it who write their own loop. */
export type TwoRanks = (typeof waysWithExperts)[number] | "group";

const specialCases: readonly RecipeCase[] = [
  { name: "grpo", choice: { type: "grpo" }, minibatchTrajectories: 0, batch: "mixed" },
  { name: "dapo", choice: { type: "dapo" }, minibatchTrajectories: 0, batch: "mixed" },
  {
    name: "grpo with a steered entropy, a rank without loss tokens",
    choice: { type: "grpo", entropy: { type: "adaptive", target: 2, coefficient: 0.01 } },
    minibatchTrajectories: 0,
    batch: "lopsided",
  },
  { name: "dapo, a rank without a group", choice: { type: "dapo" }, minibatchTrajectories: 0, batch: "single" },
  { name: "grpo in minibatches", choice: { type: "grpo" }, minibatchTrajectories: 5, batch: "mixed" },
  // What is taken over the whole batch: a deviation, whitening, chosen tokens, a mean weight, a mean weight inside of the loss.
  { name: "batch-std", choice: { type: "grpo", scale: "batch-std" }, minibatchTrajectories: 0, batch: "mixed" },
  { name: "reinforce-pp", choice: { type: "reinforce-pp" }, minibatchTrajectories: 0, batch: "mixed" },
  { name: "clip-cov", choice: { type: "clip-cov", share: 0.1 }, minibatchTrajectories: 0, batch: "mixed" },
  {
    name: "self-normalized weights",
    choice: { type: "grpo", correction: { importance: { level: "token", threshold: 5, isSelfNormalized: true } } },
    minibatchTrajectories: 0,
    batch: "mixed",
  },
  {
    name: "bypass mode with self-normalized weights",
    choice: {
      type: "rloo",
      bypass: { loss: "reinforce" },
      correction: { importance: { level: "sequence", threshold: 3, isSelfNormalized: true } },
    },
    minibatchTrajectories: 5,
    batch: "mixed",
  },
];

/** Every other recipe, as it is by default. */
const plainCases = (Object.keys(recipes) as RecipeName[])
  .filter((type) => !specialCases.some(({ name }) => name === type))
  .map((type): RecipeCase => {
    const required = type === "dr-grpo" ? { maxResponseLength: 6 } : {};
    return { name: type, choice: { type, ...required } as RecipeChoice, minibatchTrajectories: 0, batch: "mixed" };
  });

/** Every recipe, those that look at the whole batch in some way of their own more than once. */
export const recipeCases = [...specialCases, ...plainCases];

/** Scoring sees the whole batch on every rank: one strategy for each recipe, drawn by its name, and every second one on a mixture of experts. */
export const trainingCases: readonly TrainingCase[] = recipeCases.map((one, i) => {
  const family = i % 2 === 0 ? "qwen3" : "qwen3_moe";
  const ways: readonly TwoRanks[] = family === "qwen3" ? waysOfTwo : waysWithExperts;
  const spread = i === 0 ? "group" : ways[new Random(deriveSeed(3, one.name)).integer(ways.length)]!;
  return { ...one, spread, family };
});

const vocabSize = 29;
// An epsilon above the rounding of gradients: AdamW divides by their size, which would make noise of it as large as the rest.
const optimizerOf = (parameters: NamedParameters) => new AdamW(parameters, { lr: 1e-3, weightDecay: 0, eps: 1e-3 });

/** A trainer of a model that is spread as a strategy says, with a critic where the recipe has one. `join`: ranks that share rows besides. */
export async function trainerOf(
  { choice, minibatchTrajectories, family }: TrainingCase,
  strategy: StrategyBuilder,
  seed: number,
  join?: (parameters: NamedParameters) => Promise<Strategy>,
): Promise<{ readonly model: CausalLm; readonly trainer: TokenTrainer }> {
  const recipe = buildRecipe(choice);
  const model = modelOf(family, seed, strategy);
  const optimizer = await strategy.optimize(model, model.namedParameters(), optimizerOf);
  const trainer = new TokenTrainer({
    model,
    recipe,
    optimizer,
    schedule: constantRate(),
    reference: null,
    critic: recipe.hasCritic ? await criticOf(family, seed, strategy) : null,
    strategy: join === undefined ? strategy : await join(model.namedParameters()),
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 40, minibatchTrajectories, maxGradNorm: 1 },
      ...{ recompute: false, seed: 1 },
    },
  });
  return { model, trainer };
}

async function criticOf(family: TrainingCase["family"], seed: number, strategy: StrategyBuilder) {
  const model = modelOf(family, seed + 10, strategy);
  const head = new ValueHead(model.config.width, { device: strategy.loadDevice });
  const parameters = new Map([
    ...withPrefix("model", model.namedParameters()),
    ...withPrefix("head", head.namedParameters()),
  ]);
  return { model, head, optimizer: await strategy.optimize(model, parameters, optimizerOf), warmupUpdates: 0 };
}

/** This rank's part of a model with weights by a seed. */
function modelOf(
  family: TrainingCase["family"],
  seed: number,
  { spread, loadDevice: device }: Pick<StrategyBuilder, "spread" | "loadDevice">,
): CausalLm {
  const whole = tinyModel(tinyConfig(family), { seed, device });
  if (Object.values(spread).every(({ count }) => count === 1)) return whole;
  const model = new CausalLm(whole.config, { device }, spread);
  const values = whole.namedParameters();
  noGrad(() =>
    tensorScope(() => {
      for (const [name, parameter] of model.namedParameters()) {
        const value = values.get(name)!;
        parameter.copy_(parameter.shard === null ? value : partOf(value, parameter.shard));
      }
    }),
  );
  whole.dispose();
  return model;
}

export function batchOf(name: BatchName, step: number): SampleBatch {
  const random = new Random(deriveSeed(7, name, step));
  const sizes = { mixed: [3, 5, 2, 4, 4], lopsided: [4, 4], single: [5] }[name];
  let trajectory = 0;
  const samples = sizes.flatMap((size, group) =>
    Array.from({ length: size }, (_, i) => {
      const isSilent = name === "lopsided" && group === 1;
      return sampleOf(random, { group, trajectory: trajectory++, reward: i % 2, isSilent });
    }),
  );
  return { samples, version: step };
}

interface SampleFacts {
  readonly group: number;
  readonly trajectory: number;
  readonly reward: number;
  readonly isSilent: boolean;
}

function sampleOf(random: Random, { group, trajectory, reward, isSilent }: SampleFacts): TokenSample {
  const numPrompt = 1 + random.integer(5);
  const numReply = 1 + random.integer(6);
  const length = numPrompt + numReply;
  const rewards = new Float32Array(length);
  rewards[length - 1] = reward;
  return {
    tokenIds: Int32Array.from({ length }, () => random.integer(vocabSize)),
    lossMask: new Uint8Array(length).fill(isSilent ? 0 : 1, numPrompt),
    samplerLogprobs: Float32Array.from({ length }, () => -2 - random.uniform()),
    versions: new Int32Array(length),
    rewards,
    ...{ group, trajectory, turn: 0, stateKey: "s", isTruncated: false },
    greedy: { rewards: [(group % 3) / 2], numTokens: 3, isTruncated: false },
  };
}

/** All weights as one list. Call it on all ranks. */
export function weightsOf(model: CausalLm): number[] {
  return tensorScope(() =>
    [...wholeWeights(model, { isMerged: false, isKept: true }).values()].flatMap((value) =>
      value.reshape(-1).toArray(),
    ),
  );
}
