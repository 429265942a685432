/** How a recipe file becomes a recipe: options are parsed and checked, pieces are chosen, and two functions come out. */
import type { z } from "zod";
import { parseOptions } from "../../errors/parse-options.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import { resolveCorrection } from "../corrections/correction-options.ts";
import { updateKlController } from "../kl/controller.ts";
import { updateEntropyController } from "../losses/entropy-controller.ts";
import { checkOptions } from "./check-options.ts";
import type { BatchInput, Measured, Recipe, RecipePieces, RecipeState } from "./recipe.ts";
import { correctsInLoss, lossCorrectionMetrics, recipeLoss } from "./recipe-loss.ts";
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
  const plan: RecipePlan = { type: options.type, options, pieces, correction, needs: needsOf(options, pieces) };
  const initialState = startState(options);
  return {
    type: options.type,
    needs: plan.needs,
    needsEntropies: options.entropy !== null,
    hasCritic: pieces.critic !== undefined,
    correctsSampler: correctsSampler(options, pieces),
    numEpochs: options.numEpochs,
    initialState,
    score: (batch, state = initialState) => scoreBatch(plan, batch, state),
    loss: (microbatch, denominators) => recipeLoss(plan, microbatch, denominators),
    correctsInLoss: correctsInLoss(plan),
    correctionMetrics: (update) => lossCorrectionMetrics(plan, update),
    advance: advanceState,
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

function needsOf(options: CommonOptions, pieces: RecipePieces): BatchInput[] {
  const { bypass, correction, outliers, offPolicySequences, klLoss, klReward, staleness } = options;
  // In bypass mode a mean over the batch, and masks made once, still need the trainer's own log-probs.
  const isAnchorRead = correction?.importance?.isSelfNormalized || outliers !== null || offPolicySequences !== null;
  return [
    ...(bypass === null || isAnchorRead ? (["anchorLogprobs_BT"] as const) : []),
    ...(klLoss !== null || klReward !== null ? (["referenceLogprobs_BT"] as const) : []),
    ...(staleness === null ? [] : (["versions"] as const)),
    ...(pieces.needs ?? []),
  ];
}

function startState({ klReward, entropy }: CommonOptions): RecipeState {
  return {
    klReward:
      klReward &&
      (klReward.adaptive === null
        ? { type: "fixed", coefficient: klReward.coefficient }
        : { type: "adaptive", coefficient: klReward.coefficient, ...klReward.adaptive }),
    entropy: entropy && (entropy.type === "fixed" ? entropy : { ...entropy, entropy: null }),
  };
}

function advanceState(state: RecipeState, { referenceKl, entropy, numTrajectories }: Measured): RecipeState {
  return {
    klReward:
      state.klReward && updateKlController(state.klReward, expectMeasured("referenceKl", referenceKl), numTrajectories),
    entropy: state.entropy && updateEntropyController(state.entropy, expectMeasured("entropy", entropy)),
  };
}

function expectMeasured(name: string, value: number | undefined): number {
  if (value !== undefined) return value;
  throw new RerollError("MISSING_ARGUMENT", `${name} is missing: a controller of the recipe is steered by it.`);
}
