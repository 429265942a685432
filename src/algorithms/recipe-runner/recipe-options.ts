/** The options that all recipes share, and the fragments that several of them use, as zod schemas. */
import { z } from "zod";
import { REJECTION_NAMES } from "../corrections/correction-options.ts";
import type { Reduction } from "../reduce.ts";

const threshold = z.union([z.number(), z.string()]);
const scope = z.enum(["token", "sequence"]);
const klEstimator = z.enum(["k1", "k2", "k3", "abs", "k1+", "k3+", "abs+"]);

const correction = z.strictObject({
  convention: z
    .enum(["ratio", "verl"])
    .default("ratio")
    .describe("How thresholds are read: as bounds on policy / sampler (ratio), or the way verl's code reads them."),
  importance: z
    .strictObject({
      level: z
        .enum(["token", "sequence"])
        .describe("One weight per token, or one per sequence (row): the product of its token weights."),
      threshold: threshold.describe(
        'Bounds on the weights: "low_high", or a single t, which means 1/t to t under ratio and at most t under verl.',
      ),
      outside: z
        .enum(["clip", "zero"])
        .exactOptional()
        .describe("Whether weights out of bounds are clipped or set to zero. Default: clip."),
      isSelfNormalized: z.boolean().default(false).describe("Divide the weights by their mean over the batch."),
    })
    .nullable()
    .default(null)
    .describe("Importance weights on the loss."),
  rejections: z
    .partialRecord(z.enum([...REJECTION_NAMES, "token", "sequence", "geometric"]), threshold)
    .default({})
    .describe("Rejection criteria and their thresholds; a token must pass all of them."),
  scope: scope.default("token").describe("Reject the token alone, or its whole row."),
});

const overlong = z.strictObject({
  maxTokens: z.int().positive().describe("Maximum length of a trajectory, in loss tokens over all its turns."),
  bufferTokens: z.int().positive().describe("How many tokens before maxTokens the penalty starts to grow."),
  penalty: z.number().min(0).default(1).describe("The penalty at maxTokens and beyond."),
});

const outliers = z.strictObject({
  of: z
    .enum(["ratio", "difference"])
    .describe("Quantity to compare: the ratio or the difference of anchor and sampler probabilities."),
  low: z.number().describe("Smallest ratio or difference that is kept."),
  high: z.number().describe("Largest ratio or difference that is kept."),
  scope: scope.default("token").describe("Drop the token alone, or its whole row."),
});

const entropy = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("fixed"), coefficient: z.number().describe("Weight of the bonus.") }),
  z.strictObject({
    type: z.literal("adaptive"),
    coefficient: z.number().min(0).default(0).describe("Weight of the bonus at the start."),
    target: z.number().min(0).describe("Entropy per token to hold, in nats."),
    stepSize: z.number().positive().default(0.005).describe("How far the coefficient moves after each update."),
    smallest: z.number().min(0).default(0).describe("Smallest coefficient."),
    largest: z.number().min(0).default(1).describe("Largest coefficient."),
  }),
]);

const klReward = z.strictObject({
  coefficient: z.number().min(0).describe("Cost of one nat of KL. With adaptive, the initial one."),
  estimator: klEstimator.default("k1").describe("Estimator of the KL."),
  adaptive: z
    .strictObject({
      targetKl: z.number().positive().describe("Target KL per token."),
      horizon: z
        .number()
        .positive()
        .default(10_000)
        .describe("Number of trajectories over which a full correction is spread."),
    })
    .nullable()
    .default(null)
    .describe("Steer the coefficient so that the KL stays near a target."),
});

const klLoss = z.strictObject({
  coefficient: z.number().positive().describe("Weight of the term."),
  estimator: klEstimator.default("k3").describe("Estimator of the KL."),
});

/**
 * Options of every recipe. Anything that changes an algorithm is off by default: a KL term needs the log-probs of a
 * reference, and a correction has thresholds that depend on the run.
 */
export const commonOptions = {
  numEpochs: z.int().min(1).default(1).describe("Passes over each rollout."),
  correction: correction.nullable().default(null).describe("Importance weights and rejection for off-policy tokens."),
  bypass: z
    .strictObject({
      loss: z
        .enum(["recipe", "reinforce"])
        .default("recipe")
        .describe("Loss to use: the recipe's own with the sampler as anchor, or -w A log policy."),
      allowsSeveralEpochs: z.boolean().default(false).describe("Allow more than one epoch anyway."),
    })
    .nullable()
    .default(null)
    .describe("Use the sampler's log-probs as the anchor, and correct inside the loss. Meant for one epoch."),
  outliers: outliers.nullable().default(null).describe("Drop tokens that trainer and sampler disagree about."),
  offPolicySequences: z
    .strictObject({
      threshold: z.number().min(0).describe("Largest mean difference between sampler and policy, in nats per token."),
    })
    .nullable()
    .default(null)
    .describe("Drop sequences with a negative advantage that the policy would no longer produce (DeepSeek-V3.2)."),
  staleness: z
    .strictObject({
      max: z.int().min(0).describe("Maximum staleness of a token, in training steps."),
      scope: scope.default("token").describe("Drop the token alone, or its whole row."),
    })
    .nullable()
    .default(null)
    .describe("Drop tokens that are too stale."),
  masksTruncated: z.boolean().default(false).describe("Do not train on trajectories that a limit cut short."),
  dropsFlatGroups: z
    .boolean()
    .default(false)
    .describe("Leave groups whose rewards are all equal out of the loss and its denominators."),
  overlong: overlong
    .nullable()
    .default(null)
    .describe("A penalty that grows as a trajectory nears the length limit (DAPO)."),
  truncatedPenalty: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe(
      "Subtract this from the reward of a trajectory that a limit cut short, such as a reply that has no end token.",
    ),
  rewardNormalization: z
    .strictObject({
      isCentered: z
        .boolean()
        .default(true)
        .describe("Subtract the running mean. false: divide alone, which keeps the sign of rewards."),
    })
    .nullable()
    .default(null)
    .describe(
      "Bring the rewards of trajectories to the scale of all rewards of their domain so far: minus the running mean, divided by the running standard deviation. Comes before penalties and rewardClip.",
    ),
  rewardClip: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Clip the reward of each token to this magnitude, after shaping and before the KL penalty."),
  klReward: klReward
    .nullable()
    .default(null)
    .describe("Subtract the KL to the reference from the reward of each token."),
  klLoss: klLoss.nullable().default(null).describe("Add the KL to the reference to the loss."),
  entropy: entropy
    .nullable()
    .default(null)
    .describe("Entropy bonus, with a fixed coefficient or one that adapts to hold a target entropy."),
  whitensAdvantages: z.boolean().default(false).describe("Scale advantages to mean 0 and variance 1 over all tokens."),
  advantageClip: z.number().positive().nullable().default(null).describe("Clip advantages to this magnitude."),
} as const;

export type CommonOptions = z.output<z.ZodObject<typeof commonOptions>>;

/** The schema of a recipe: its tag, its own options, and those of all recipes. Its own replace common ones. */
export function recipeOptions<const Type extends string, Shape extends z.core.$ZodLooseShape>(
  type: Type,
  shape: Shape,
) {
  return z.strictObject({ type: z.literal(type), ...commonOptions, ...shape });
}

/** The clip range of the ratio. */
export function clipOptions(low: number, high: number) {
  return {
    clipLow: z.number().min(0).max(1).default(low).describe("Ratios below 1 - clipLow are clipped."),
    clipHigh: z.number().min(0).default(high).describe("Ratios above 1 + clipHigh are clipped."),
  } as const;
}

/** The clipped surrogate with a second bound for negative advantages. */
export function ppoClipOptions(low: number, high: number, dualClip: number | null = 3) {
  return {
    ...clipOptions(low, high),
    dualClip: z
      .number()
      .min(1)
      .nullable()
      .default(dualClip)
      .describe("Where A < 0, the loss is at most -A dualClip. null: no such bound."),
  } as const;
}

/** The denominator of the loss. */
export function reductionOption(initial: Reduction) {
  return {
    reduction: z
      .discriminatedUnion("type", [
        z.strictObject({ type: z.literal("token-mean") }),
        z.strictObject({ type: z.literal("token-sum") }),
        z.strictObject({ type: z.literal("trajectory-mean-token-mean") }),
        z.strictObject({ type: z.literal("trajectory-mean-token-sum") }),
        z.strictObject({ type: z.literal("trajectory-mean-token-sum-norm"), lengthDivisor: z.number().positive() }),
        z.strictObject({ type: z.literal("seq-mean-token-mean") }),
        z.strictObject({ type: z.literal("seq-mean-token-sum") }),
        z.strictObject({ type: z.literal("seq-mean-token-sum-norm"), lengthDivisor: z.number().positive() }),
        z.strictObject({ type: z.literal("prompt-mean") }),
      ])
      .default(initial)
      .describe("How token losses are averaged: over tokens, trajectories, rows (seq) or prompts."),
  } as const;
}

/** The scale of centered rewards. */
export function scaleOption(initial: "group-std" | "batch-std" | "none") {
  return {
    scale: z
      .enum(["group-std", "batch-std", "none"])
      .default(initial)
      .describe("Divide centered rewards by the standard deviation of the group, by that of the batch, or by nothing."),
    ...singletonOption,
  } as const;
}

/** The advantage of a group of one. */
export const singletonOption = {
  singleton: z
    .enum(["zero", "raw"])
    .default("zero")
    .describe("Advantage of a group with one sample: zero, or its raw reward as in verl."),
} as const;

/** The discount per loss token. */
export const gammaOption = {
  gamma: z.number().min(0).max(1).default(1).describe("Discount factor per loss token."),
} as const;
