/** All recipes by name, and how a choice such as `{ type: "grpo", clipHigh: 0.28 }` becomes a recipe. */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import type { RecipeDefinition } from "../recipe-runner/define-recipe.ts";
import type { Recipe } from "../recipe-runner/recipe.ts";
import { cispo } from "./cispo.ts";
import { clipCov } from "./clip-cov.ts";
import { dapo } from "./dapo.ts";
import { decoupledPpo } from "./decoupled-ppo.ts";
import { dppo } from "./dppo.ts";
import { drGrpo } from "./dr-grpo.ts";
import { gigpo } from "./gigpo.ts";
import { gmpo } from "./gmpo.ts";
import { gpg } from "./gpg.ts";
import { grpo } from "./grpo.ts";
import { gspo } from "./gspo.ts";
import { kimi } from "./kimi.ts";
import { klCov } from "./kl-cov.ts";
import { maxRl } from "./maxrl.ts";
import { opo } from "./opo.ts";
import { passAtK } from "./pass-at-k.ts";
import { ppo } from "./ppo.ts";
import { reinforce } from "./reinforce.ts";
import { reinforcePp } from "./reinforce-pp.ts";
import { reinforcePpBaseline } from "./reinforce-pp-baseline.ts";
import { remax } from "./remax.ts";
import { rloo } from "./rloo.ts";
import { sapo } from "./sapo.ts";
import { segmentPpo } from "./segment-ppo.ts";
import { topr } from "./topr.ts";
import { truncatedIs } from "./truncated-is.ts";

export const recipes = {
  ppo,
  grpo,
  dapo,
  "dr-grpo": drGrpo,
  gspo,
  cispo,
  sapo,
  gmpo,
  rloo,
  reinforce,
  "reinforce-pp": reinforcePp,
  "reinforce-pp-baseline": reinforcePpBaseline,
  remax,
  opo,
  gpg,
  topr,
  "truncated-is": truncatedIs,
  dppo,
  "kl-cov": klCov,
  "clip-cov": clipCov,
  maxrl: maxRl,
  "pass-at-k": passAtK,
  gigpo,
  "decoupled-ppo": decoupledPpo,
  "segment-ppo": segmentPpo,
  kimi,
} as const satisfies Record<string, RecipeDefinition>;

export type RecipeName = keyof typeof recipes;

/** What a run file says: a recipe by name, and the options that differ from its defaults. */
export type RecipeChoice = { [Name in RecipeName]: z.input<(typeof recipes)[Name]["options"]> }[RecipeName];

/** Builds the recipe that was chosen. `path` is where the choice is in the run file; errors start with it. */
export function buildRecipe(choice: RecipeChoice, path = "algorithm"): Recipe {
  return definitionOf(choice.type, path).build(choice, path);
}

/** The JSON Schema of what a person may write for a recipe, with defaults and descriptions. */
export function recipeJsonSchema(name: RecipeName) {
  return z.toJSONSchema(recipes[name].options, { io: "input" });
}

function definitionOf(type: string, path: string): RecipeDefinition {
  const found = Object.entries<RecipeDefinition>(recipes).find(([name]) => name === type);
  if (found !== undefined) return found[1];
  throw new RerollError(
    "INVALID_OPTION",
    `${path}.type must name a recipe: got ${JSON.stringify(type)}. Known are: ${Object.keys(recipes).join(", ")}.`,
    { type },
  );
}
