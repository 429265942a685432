/** Batches, models and trainers that every process makes alike. */
import { buildRecipe, type RecipeChoice, type RecipeName, recipes } from "../../src/algorithms/recipes/table.ts";
import type { SampleBatch, TokenSample } from "../../src/flow/token-sample.ts";
import type { CausalLm } from "../../src/models/causal-lm/causal-lm.ts";
import { deriveSeed, Random } from "../../src/random/random.ts";
import { tinyConfig, tinyModel } from "../../src/testing/tiny-model.ts";
import { AdamW } from "../../src/torch/optim/adamw.ts";
import { constantRate } from "../../src/torch/optim/schedule.ts";
import { tensorScope } from "../../src/torch/scope.ts";
import type { Strategy } from "../../src/training/strategy/strategy.ts";
import { TokenTrainer } from "../../src/training/token-trainer.ts";

/** mixed: groups of several sizes and lengths. lopsided: of two groups only one has loss tokens. single: one group. */
export type BatchName = "mixed" | "lopsided" | "single";

export interface TrainingCase {
  readonly name: string;
  readonly choice: RecipeChoice;
  readonly minibatchTrajectories: number;
  readonly batch: BatchName;
}

const specialCases: readonly TrainingCase[] = [
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

/** Every other recipe, as it is by default. A critic on two ranks is in test/runs/invariance.test.ts. */
const plainCases = (Object.keys(recipes) as RecipeName[])
  .filter((type) => !specialCases.some(({ name }) => name === type))
  .map((type): TrainingCase => {
    const required = type === "dr-grpo" ? { maxResponseLength: 6 } : {};
    return { name: type, choice: { type, ...required } as RecipeChoice, minibatchTrajectories: 0, batch: "mixed" };
  })
  .filter(({ choice }) => !buildRecipe(choice).hasCritic);

export const trainingCases = [...specialCases, ...plainCases];

const vocabSize = 29;

export function newModel(seed: number): CausalLm {
  return tinyModel(tinyConfig("qwen3"), { seed });
}

export function trainerOf(
  model: CausalLm,
  choice: RecipeChoice,
  { minibatchTrajectories, strategy }: { readonly minibatchTrajectories: number; readonly strategy?: Strategy },
): TokenTrainer {
  return new TokenTrainer({
    model,
    recipe: buildRecipe(choice),
    // An epsilon above the rounding of gradients: AdamW divides by their size, which would make noise of it as large as
    // the rest.
    optimizer: new AdamW(model.namedParameters(), { lr: 1e-3, weightDecay: 0, eps: 1e-3 }),
    schedule: constantRate(),
    ...{ reference: null, critic: null },
    ...(strategy && { strategy }),
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 40, minibatchTrajectories, maxGradNorm: 1 },
      ...{ recompute: false, seed: 1 },
    },
  });
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

/** All weights as one list. */
export function weightsOf(model: CausalLm): number[] {
  return [...model.namedParameters().values()].flatMap((parameter) =>
    tensorScope(() => parameter.detach().reshape(-1).toArray()),
  );
}
