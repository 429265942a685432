import { expect, test } from "vitest";
import { buildRecipe, type RecipeChoice, type RecipeName, recipes } from "../recipes/table.ts";
import { gradientNeeds } from "./gradient-needs.ts";

const required: Partial<Record<RecipeName, object>> = { "dr-grpo": { maxResponseLength: 4 } };
const names = Object.keys(recipes) as RecipeName[];

function needsOf(choice: object, isOwnAnchor = false) {
  return gradientNeeds(buildRecipe(choice as RecipeChoice), isOwnAnchor);
}

test("losses with ratios of sequences and segments are found among all recipes, and no others", () => {
  const others = names.filter((type) => needsOf({ type, ...required[type] }) === "others");
  expect(others.toSorted()).toEqual(["gmpo", "gspo", "segment-ppo"]);
});

test("a policy that is its own anchor has ratios of 1, whatever it says", () => {
  for (const type of ["grpo", "dapo", "gspo", "rloo"] as const) expect(needsOf({ type }, true)).toBe("nothing");
  expect(needsOf({ type: "grpo", klLoss: { coefficient: 0.1 } }, true)).toBe("token");
});

test("KL and entropy of tokens need the token", () => {
  const entropy = { type: "fixed", coefficient: 0.01 };
  expect(needsOf({ type: "ppo", klLoss: { coefficient: 0.1, estimator: "k2" }, entropy })).toBe("token");
});

test("a correction in the loss needs the token as long as no token rejects another", () => {
  const bypass = { loss: "reinforce" };
  const importance = { level: "token", threshold: 2 };
  expect(needsOf({ type: "grpo", bypass, correction: { importance } })).toBe("token");
  expect(needsOf({ type: "grpo", bypass, correction: { importance: { ...importance, level: "sequence" } } })).toBe(
    "others",
  );
});

test("ratios of sequences that only replies without a reward have are found as well", () => {
  expect(needsOf({ type: "topr", level: "sequence" })).toBe("others");
});

test("a loss that reads the other tokens of its row needs them, however little it makes of them", () => {
  const plain = buildRecipe({ type: "grpo" });
  const coupled: Parameters<typeof gradientNeeds>[0] = {
    loss: (microbatch, denominators) => {
      const { policyLogprobs_BT } = microbatch;
      const nudged_BT = policyLogprobs_BT.add(policyLogprobs_BT.sum(1, true).mul(1e-4));
      return plain.loss({ ...microbatch, policyLogprobs_BT: nudged_BT }, denominators);
    },
  };
  expect(gradientNeeds(plain, false)).toBe("token");
  expect(gradientNeeds(coupled, false)).toBe("others");
});
