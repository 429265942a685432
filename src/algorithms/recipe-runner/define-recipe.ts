/** How a recipe file becomes a recipe: options are parsed and checked, pieces are chosen, and two functions come out. */
import type { z } from "zod";
import { parseOptions } from "../../errors/parse-options.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Metrics } from "../../flow/metrics.ts";
import { resolveCorrection } from "../corrections/correction-options.ts";
import { updateKlController } from "../kl/controller.ts";
import { entropyCoefficient, updateEntropyController } from "../losses/entropy-controller.ts";
import { addRewards, rewardScale } from "../shaping/reward-moments.ts";
import { checkOptions } from "./check-options.ts";
import type { BatchInput, Measured, Recipe, RecipePieces, RecipeState } from "./recipe.ts";
import { correctsInLoss, lossCorrectionMetrics, recipeLoss, recipeValueLoss } from "./recipe-loss.ts";
import type { CommonOptions } from "./recipe-options.ts";
import type { RecipePlan } from "./recipe-plan.ts";
import { scoreBatch } from "./score-batch.ts";

export interface RecipeDefinition<Schema extends z.ZodObject = z.ZodObject> {
  /** Feeds docs and editors through `z.toJSONSchema(options, { io: "input" })`. */
  readonly options: Schema;
  /** Checks a choice such as `{ type: "grpo", clipHigh: 0.28 }` and puts the recipe together. */
  readonly build: (choice: unknown, path?: string) => Recipe;
}

/** Defines a recipe by its options and what it makes of them. `pieces` throws where options contradict each other. */
export function defineRecipe<Schema extends z.ZodObject>(
  schema: Schema,
  pieces: (options: z.output<Schema>, path: string) => RecipePieces,
): RecipeDefinition<Schema> {
  return {
    options: schema,
    build: (choice, path = "algorithm") => {
      const options = parseOptions(schema, choice, path);
      // Every schema of recipeOptions holds the tag and the common options; a generic one cannot say so.
      const common = options as unknown as CommonOptions & { readonly type: string };
      checkOptions(common, path);
      return createRecipe(common, pieces(options, path));
    },
  };
}

function createRecipe(options: CommonOptions & { readonly type: string }, pieces: RecipePieces): Recipe {
  const correction = options.correction && resolveCorrection(options.correction);
  const plan: RecipePlan = {
    ...{ type: options.type, options, pieces, correction },
    needs: needsOf(options, pieces),
    scoresAnchor: scoresAnchor(options, pieces),
  };
  const initialState = startState(options);
  return {
    type: options.type,
    needs: plan.needs,
    needsEntropies: options.entropy !== null,
    hasCritic: pieces.critic !== undefined,
    correctsSampler: correctsSampler(options, pieces),
    scoresAnchor: plan.scoresAnchor,
    numEpochs: options.numEpochs,
    initialState,
    score: (batch, state = initialState) => scoreBatch(plan, batch, state),
    loss: (microbatch, denominators) => recipeLoss(plan, microbatch, denominators),
    valueLoss: (rows, values_BT, denominators) => recipeValueLoss(plan, rows, values_BT, denominators),
    correctsInLoss: correctsInLoss(plan),
    correctionMetrics: (update) => lossCorrectionMetrics(plan, update),
    observe: (state, rewards) =>
      state.rewards === null ? state : { ...state, rewards: addRewards(state.rewards, rewards) },
    advance: advanceState,
    resume: (saved) => resumeState(initialState, saved),
    stateMetrics,
  };
}

function correctsSampler({ correction, bypass, outliers }: CommonOptions, { policy }: RecipePieces): boolean {
  if (outliers !== null || policy.weighsSampler === "always") return true;
  if (bypass === null) return correction !== null;
  // The correction's weights are not applied on top of a ratio that takes their place.
  const isWeighted = bypass.loss === "reinforce" || !policy.hasRatio;
  const weighs = correction !== null && correction.importance !== null && isWeighted;
  const rejects = correction !== null && Object.keys(correction.rejections).length > 0;
  return weighs || rejects || (bypass.loss === "recipe" && policy.weighsSampler === "bypass");
}

function scoresAnchor(options: CommonOptions, { policy }: RecipePieces): boolean {
  const { correction, outliers, offPolicySequences, klReward } = options;
  return (
    [correction, outliers, offPolicySequences, klReward].some((one) => one !== null) || policy.select !== undefined
  );
}

function needsOf(options: CommonOptions, pieces: RecipePieces): BatchInput[] {
  const { bypass, correction, outliers, offPolicySequences, klLoss, klReward, staleness, rewardNormalization } =
    options;
  // In bypass mode a mean over the batch, and masks made once, still need the trainer's own log-probs.
  const isAnchorRead = correction?.importance?.isSelfNormalized || outliers !== null || offPolicySequences !== null;
  return [
    ...(bypass === null || isAnchorRead ? (["anchorLogprobs_BT"] as const) : []),
    ...(klLoss !== null || klReward !== null ? (["referenceLogprobs_BT"] as const) : []),
    ...(staleness === null ? [] : (["versions"] as const)),
    ...(rewardNormalization === null ? [] : (["domainOf"] as const)),
    ...(pieces.needs ?? []),
  ];
}

function startState({ klReward, entropy, rewardNormalization }: CommonOptions): RecipeState {
  return {
    klReward:
      klReward &&
      (klReward.adaptive === null
        ? { type: "fixed", coefficient: klReward.coefficient }
        : { type: "adaptive", coefficient: klReward.coefficient, ...klReward.adaptive }),
    entropy: entropy && (entropy.type === "fixed" ? entropy : { ...entropy, entropy: null }),
    rewards: rewardNormalization && {},
  };
}

/** Coefficients that have adapted, and moments, are what a run has learned; everything else is an option. */
function resumeState(initial: RecipeState, saved: RecipeState): RecipeState {
  const { klReward, entropy, rewards } = initial;
  return {
    klReward:
      klReward?.type === "adaptive" && saved.klReward?.type === "adaptive"
        ? { ...klReward, coefficient: saved.klReward.coefficient }
        : klReward,
    entropy:
      entropy?.type === "adaptive" && saved.entropy?.type === "adaptive"
        ? { ...entropy, coefficient: saved.entropy.coefficient, entropy: saved.entropy.entropy }
        : entropy,
    rewards: rewards && (saved.rewards ?? rewards),
  };
}

function stateMetrics({ klReward, entropy, rewards }: RecipeState): Metrics {
  const domains = Object.keys(rewards ?? {}).map((domain) => [domain, rewardScale(rewards ?? {}, domain)] as const);
  return {
    ...(klReward && { "score/kl_coefficient": klReward.coefficient }),
    ...(entropy && { "score/entropy_coefficient": entropyCoefficient(entropy) }),
    ...Object.fromEntries(domains.map(([domain, { mean }]) => [`score/reward_mean_${domain}`, mean])),
    ...Object.fromEntries(domains.map(([domain, { deviation }]) => [`score/reward_std_${domain}`, deviation])),
  };
}

function advanceState(state: RecipeState, { referenceKl, entropy, numTrajectories }: Measured): RecipeState {
  return {
    ...state,
    klReward:
      state.klReward && updateKlController(state.klReward, expectMeasured("referenceKl", referenceKl), numTrajectories),
    entropy: state.entropy && updateEntropyController(state.entropy, expectMeasured("entropy", entropy)),
  };
}

function expectMeasured(name: string, value: number | undefined): number {
  if (value !== undefined) return value;
  throw new RerollError("MISSING_ARGUMENT", `${name} is missing: a controller of the recipe is steered by it.`);
}
