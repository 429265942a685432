import { describe, expect, test } from "vitest";
import type { Recipe } from "../algorithms/recipe-runner/recipe.ts";
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { createPreset } from "../models/causal-lm/presets.ts";
import { Random } from "../random/random.ts";
import { AdamW } from "../torch/optim/adamw.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { tensorScope } from "../torch/scope.ts";
import { TokenTrainer } from "./token-trainer.ts";

function samples(): TokenSample[] {
  const random = new Random(5);
  return Array.from({ length: 8 }, (_, i) => {
    const tokenIds = Int32Array.from({ length: 4 + random.integer(4) }, () => random.integer(12));
    const each = (value: (t: number) => number) => Float32Array.from(tokenIds, (_, t) => (t < 2 ? 0 : value(t)));
    return {
      ...{ tokenIds, lossMask: Uint8Array.from(tokenIds, (_, t) => Number(t >= 2)) },
      samplerLogprobs: each(() => -2 - random.uniform()),
      versions: new Int32Array(tokenIds.length),
      rewards: each((t) => (t === tokenIds.length - 1 ? random.integer(2) : 0)),
      onOldCache: Uint8Array.from(tokenIds, (_, t) => Number(t === 3)),
      ...{ group: i % 2, trajectory: i, turn: 0, stateKey: "", isTruncated: i === 3 },
    };
  });
}

/** Two steps: the weights that they leave, what they report, and how often a model went forward. */
async function train(recipe: Recipe, minibatchTrajectories = 0) {
  const model = createPreset("nano", 12, 2);
  let numForwards = 0;
  const forward = model.forward.bind(model);
  model.forward = (...args: Parameters<typeof forward>) => {
    numForwards++;
    return forward(...args);
  };
  const trainer = new TokenTrainer({
    ...{ model, recipe, reference: null, critic: null, schedule: constantRate() },
    optimizer: new AdamW(model.namedParameters(), { lr: 3e-3 }),
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 4096, minibatchTrajectories, maxGradNorm: 1 },
      ...{ recompute: false, seed: 1 },
    },
  });
  const reports = [];
  for (let version = 0; version < 2; version++)
    reports.push(await trainer.step({ samples: samples(), version }, { numbersOf: [0, 5] }));
  const weights = tensorScope(() => model.parameters().map((parameter) => parameter.detach().toArray()));
  model.dispose();
  return { weights, reports, numForwards };
}

describe.each<RecipeChoice>([
  { type: "grpo" },
  { type: "dapo", masksTruncated: true },
  { type: "gspo" },
  { type: "decoupled-ppo", correction: null },
])("$type with one update per rollout", (choice) => {
  test("trains, reports and reads to the bit as if the policy had been measured before, in one forward pass", async () => {
    const recipe = buildRecipe(choice);
    const own = await train(recipe);
    const measured = await train({ ...recipe, scoresAnchor: true });
    expect(own.weights).toEqual(measured.weights);
    expect(own.reports).toEqual(measured.reports);
    expect(Object.keys(own.reports[1]!.metrics)).toContain("train/sampler_gap_old_cache");
    expect([own.numForwards, measured.numForwards]).toEqual([2, 4]);
  });
});

test("where weights of tokens come from the anchor, or a rollout is several updates, the policy is measured first", async () => {
  const importance = { level: "token", threshold: 2 } as const;
  const corrected = buildRecipe({ type: "grpo", correction: { importance } });
  expect((await train(corrected)).numForwards).toBe(4);
  expect((await train(buildRecipe({ type: "grpo" }), 4)).numForwards).toBe(6);
  expect((await train(buildRecipe({ type: "grpo", numEpochs: 2 }))).numForwards).toBe(6);
});
