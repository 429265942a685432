/**
 * Checks the options of environments, rewards and the algorithm by their catalogs, before anything is built.
 *
 * In: a config that fits the schema. Out: the same with every option of these parts filled in, and the recipe they make.
 */
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { buildRecipe, type RecipeChoice, recipes } from "../algorithms/recipes/table.ts";
import { type EnvChoice, envCatalog, expectFactory } from "../envs/catalog.ts";
import { didYouMean } from "../errors/nearest-name.ts";
import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { resolveReward } from "../rewards/catalog.ts";
import type { RunConfig } from "./run-config.ts";

/** Throws for the first option that is wrong, with its name and place. */
export function resolveParts(config: RunConfig): { readonly config: RunConfig; readonly recipe: Recipe } {
  const { algorithm } = config;
  // Options that contradict each other are found when the recipe is put together, which costs nothing.
  const recipe = buildRecipe(algorithm as RecipeChoice, "algorithm");
  const resolved: RunConfig = {
    ...config,
    algorithm: { ...recipes[algorithm.type].options.parse(algorithm), type: algorithm.type },
    envs: mapEntries(config.envs, (choice, domain) => resolveEnv(choice, `envs.${domain}`)),
    rewards: mapEntries(config.rewards, (choice, domain) => ({
      ...choice,
      ...resolveReward(choice, `rewards.${domain}`),
    })),
  };
  return { config: resolved, recipe };
}

function resolveEnv({ type, ...options }: EnvChoice, path: string): EnvChoice {
  if (type === "custom") return { type, ...expectFactory(options, path) };
  const found = envCatalog.find((one) => one.type === type);
  if (found !== undefined) return { type, ...parseOptions(found.options, options, path) };
  const known = [...envCatalog.map((one) => one.type), "custom"];
  throw new RerollError(
    "INVALID_OPTION",
    `${path}.type must be one of ${known.join(", ")}: got ${JSON.stringify(type)}.${didYouMean(type, known)}`,
    { type },
  );
}

function mapEntries<Value, Result>(
  record: Readonly<Record<string, Value>>,
  map: (value: Value, key: string) => Result,
): Record<string, Result> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
