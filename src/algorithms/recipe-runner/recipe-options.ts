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
    .describe("How thresholds are read: as bounds on policy / sampler, or as verl's code reads them."),
  importance: z
    .strictObject({
      level: z
        .enum(["token", "sequence"])
        .describe("A weight per token, or the product over the sequence, which is one row."),
      threshold: threshold.describe('Bounds of the weights: an upper one, or "low_high".'),
      outside: z
        .enum(["clip", "zero"])
        .exactOptional()
        .describe("What becomes of weights out of bounds. Default: clip."),
      isSelfNormalized: z.boolean().default(false).describe("Divide the weights by their mean over the batch."),
    })
    .nullable()
    .default(null)
    .describe("Importance weights on the loss."),
  rejections: z
    .partialRecord(z.enum([...REJECTION_NAMES, "token", "sequence", "geometric"]), threshold)
    .default({})
    .describe("Rejection criteria and their thresholds; a token must pass all of them."),
  scope: scope.default("token").describe("What is rejected: the token alone, or its whole row."),
});

const overlong = z.strictObject({
  maxTokens: z.int().positive().describe("The longest trajectory allowed, in loss tokens of all its turns."),
  bufferTokens: z.int().positive().describe("How many tokens before maxTokens the penalty starts to grow."),
  penalty: z.number().min(0).default(1).describe("The penalty at maxTokens and beyond."),
});

const outliers = z.strictObject({
  of: z
    .enum(["ratio", "difference"])
    .describe("What is compared: the ratio or the difference of anchor and sampler probabilities."),
  low: z.number().describe("The smallest ratio or difference kept."),
  high: z.number().describe("The largest ratio or difference kept."),
  scope: scope.default("token").describe("What is dropped: the token alone, or its whole row."),
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
  coefficient: z.number().min(0).describe("Cost of one nat of KL; where it adapts, the value to start from."),
  estimator: klEstimator.default("k1").describe("Estimator of the KL."),
  adaptive: z
    .strictObject({
      targetKl: z.number().positive().describe("The KL per token to hold."),
      horizon: z.number().positive().default(10_000).describe("Trajectories over which a full correction is spread."),
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
 * Options of every recipe. All that changes an algorithm is off by default: a KL term needs the log-probs of a reference,
 * and a correction has thresholds that depend on the run.
 */
export const commonOptions = {
  numEpochs: z.int().min(1).default(1).describe("Passes over each rollout."),
  correction: correction.nullable().default(null).describe("Importance weights and rejection for off-policy tokens."),
  bypass: z
    .strictObject({
      loss: z
        .enum(["recipe", "reinforce"])
        .default("recipe")
        .describe("Which loss to use: the recipe's own, taken against the sampler, or -w A log policy."),
      allowsSeveralEpochs: z.boolean().default(false).describe("Allow more than one epoch all the same."),
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
    .strictObject({ max: z.int().min(0), scope: scope.default("token") })
    .nullable()
    .default(null)
    .describe("Drop tokens whose weights are more than this many training steps old."),
  masksTruncated: z.boolean().default(false).describe("Do not train on trajectories that a limit cut short."),
  dropsFlatGroups: z
    .boolean()
    .default(false)
    .describe("Leave groups whose rewards are all equal out of the loss and its denominators."),
  overlong: overlong
    .nullable()
    .default(null)
    .describe("A penalty that grows as a trajectory nears the length limit (DAPO)."),
  rewardClip: z
    .number()
    .positive()
    .nullable()
    .default(null)
    .describe("Clip the reward of each token to this magnitude, after shaping and before the KL penalty."),
  klReward: klReward.nullable().default(null).describe("KL to the reference, charged to the reward per token."),
  klLoss: klLoss.nullable().default(null).describe("KL to the reference, as a term of the loss."),
  entropy: entropy
    .nullable()
    .default(null)
    .describe("Entropy bonus: with a fixed coefficient, or one that holds a target."),
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

/** The range of ratios. */
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
      .describe("What token losses are divided by: per token, trajectory, row (seq) or prompt."),
  } as const;
}

/** The scale of centered rewards. */
export function scaleOption(initial: "group-std" | "batch-std" | "none") {
  return {
    scale: z
      .enum(["group-std", "batch-std", "none"])
      .default(initial)
      .describe(
        "What centered rewards are divided by: the standard deviation of the group, that of the batch, or nothing.",
      ),
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
  gamma: z.number().min(0).max(1).default(1).describe("Discount per loss token."),
} as const;
