import { expect, test } from "vitest";
import { buildRecipe, type RecipeChoice, type RecipeName, recipes } from "../recipes/table.ts";
import { isTokenLocal } from "./token-local.ts";

const required: Partial<Record<RecipeName, object>> = { "dr-grpo": { maxResponseLength: 4 } };

function isLocal(choice: object): boolean {
  return isTokenLocal(buildRecipe(choice as RecipeChoice));
}

test("losses with ratios of sequences and segments are found among all recipes, and no others", () => {
  const names = Object.keys(recipes) as RecipeName[];
  const others = names.filter((type) => !isLocal({ type, ...required[type] }));
  expect(others.toSorted()).toEqual(["gmpo", "gspo", "segment-ppo"]);
});

test("KL and entropy of tokens leave a loss local", () => {
  const entropy = { type: "fixed", coefficient: 0.01 };
  expect(isLocal({ type: "ppo", klLoss: { coefficient: 0.1, estimator: "k2" }, entropy })).toBe(true);
});

test("a correction in the loss is local as long as no token rejects another", () => {
  const bypass = { loss: "reinforce" };
  const importance = { level: "token", threshold: 2 };
  expect(isLocal({ type: "grpo", bypass, correction: { importance } })).toBe(true);
  expect(isLocal({ type: "grpo", bypass, correction: { importance: { ...importance, level: "sequence" } } })).toBe(
    false,
  );
});

test("a loss that reads the other tokens of its row is not local, however little it makes of them", () => {
  const plain = buildRecipe({ type: "grpo" });
  const coupled: Parameters<typeof isTokenLocal>[0] = {
    loss: (microbatch, denominators) => {
      const { policyLogprobs_BT } = microbatch;
      const nudged_BT = policyLogprobs_BT.add(policyLogprobs_BT.sum(1, true).mul(1e-4));
      return plain.loss({ ...microbatch, policyLogprobs_BT: nudged_BT }, denominators);
    },
  };
  expect(isTokenLocal(plain)).toBe(true);
  expect(isTokenLocal(coupled)).toBe(false);
});
