/** From config to the part between rollout and training. */
import type { Recipe } from "../algorithms/recipes/recipe.ts";
import { buildSamples } from "../experience/sample-builder.ts";
import type { JsonValue } from "../flow/prompt.ts";
import type { ExperiencePart } from "../loops/loop-parts.ts";
import type { RunConfig } from "./run-config.ts";

/** Experience whose state can be saved: what it keeps for replay. */
export interface SavedExperience extends ExperiencePart {
  position(): JsonValue;
  restore(position: JsonValue): void;
}

export function buildExperience(config: RunConfig, recipe: Recipe): SavedExperience {
  const forkReward = recipe.needs.includes("steps") ? "own" : "total";
  return {
    build: (groups, version) => {
      const { samples, metrics } = buildSamples(groups, {
        forkReward,
        maxTokens: config.training.maxTokensPerMicrobatch,
      });
      return { batch: { samples, version }, metrics };
    },
    position: () => null,
    restore: () => {},
  };
}
