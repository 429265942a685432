/** What recipes promise about options, inputs and degenerate batches; the invariance of gradients is in test/algorithms. */
import { describe, expect, test } from "vitest";
import type { TokenBatch } from "../../flow/token-batch.ts";
import { gradients } from "../../torch/autograd.ts";
import { full, tensor } from "../../torch/create.ts";
import { readCorrectionMetrics } from "../corrections/correction-metrics.ts";
import { readMetrics } from "../losses/loss-metrics.ts";
import { buildRecipe, type RecipeChoice, type RecipeName, recipeJsonSchema, recipes } from "./table.ts";

const float64 = { dtype: "float64" } as const;

/** Two prompts with two replies of up to three tokens; nothing is off-policy. */
function exampleBatch(rewards: number[], over: Partial<TokenBatch> = {}): TokenBatch {
  const logprobs_BT = full([4, 3], -1, float64);
  return {
    samplerLogprobs_BT: logprobs_BT,
    anchorLogprobs_BT: logprobs_BT,
    rewards_BT: tensor(
      rewards.map((reward) => [0, reward, 0]),
      float64,
    ),
    lossMask_BT: tensor([
      [1, 1, 1],
      [1, 1, 0],
      [1, 1, 0],
      [1, 1, 1],
    ]).ne(0),
    groupOf: [0, 0, 1, 1],
    trajectoryOf: [0, 1, 2, 3],
    turnOf: [0, 0, 0, 0],
    isTruncated: [false, false, false, true],
    ...over,
  };
}

function trainOnce(choice: RecipeChoice, batch: TokenBatch) {
  const recipe = buildRecipe(choice);
  const scored = recipe.score(batch);
  const policyLogprobs_BT = batch.samplerLogprobs_BT.clone();
  policyLogprobs_BT.requiresGrad = true;
  const { loss, terms } = recipe.loss({ rows: scored, policyLogprobs_BT }, scored.denominators);
  return { scored, terms, loss: loss.item(), gradient: gradients([loss], [policyLogprobs_BT])[0]!.toArray() };
}

describe("numbers", () => {
  test("dr-grpo gives every token -A over rows and length", () => {
    const { gradient, loss } = trainOnce({ type: "dr-grpo", maxResponseLength: 5 }, exampleBatch([1, 0, 1, 1]));
    // A is 0.5 and -0.5 for the first prompt and 0 for the second; four rows, length 5.
    const a = 0.5 / 20;
    expect(gradient.map((value) => value + 0)).toEqual([-a, -a, -a, a, a, 0, 0, 0, 0, 0, 0, 0]);
    expect(loss).toBeCloseTo((-0.5 * 3 + 0.5 * 2) / 20, 12);
  });

  test("the weight of a row is that of its policy, KL, entropy and value terms", () => {
    const choice: RecipeChoice = {
      type: "ppo",
      klLoss: { coefficient: 0.1 },
      entropy: { type: "fixed", coefficient: 0.1 },
    };
    const termsWith = (weights: number[]) => {
      const recipe = buildRecipe(choice);
      const batch = exampleBatch([1, 0, 1, 0], {
        referenceLogprobs_BT: full([4, 3], -1.5, float64),
        values_BT: full([4, 3], 0.25, float64),
        bootstrapValues_B: full([4], 0.25, float64),
        rowWeights_B: tensor(weights, float64),
      });
      const rows = recipe.score(batch);
      const policyLogprobs_BT = full([4, 3], -0.9, float64);
      const microbatch = {
        rows,
        policyLogprobs_BT,
        entropies_BT: full([4, 3], 2, float64),
        values_BT: full([4, 3], 0.5, float64),
      };
      const { terms } = recipe.loss(microbatch, rows.denominators);
      return Object.values(terms).map((term) => term.item());
    };
    const rowByRow = [0, 1, 2, 3].map((row) => termsWith([0, 1, 2, 3].map((other) => Number(other === row))));
    const weighted = termsWith([2, 1, 0.5, 0]);
    expect(weighted).toHaveLength(4);
    for (const [term, value] of weighted.entries()) {
      const [a, b, c] = rowByRow.map((terms) => terms[term]!);
      expect(a).not.toBe(0);
      expect(value).toBeCloseTo(2 * a! + b! + 0.5 * c!, 12);
    }
  });

  test("dapo leaves groups without variance out of the denominator", () => {
    const { scored, gradient } = trainOnce({ type: "dapo", scale: "none" }, exampleBatch([1, 0, 1, 1]));
    expect(scored.denominators.numTokens).toBe(5);
    expect(gradient[0]).toBeCloseTo(-0.5 / 5, 12);
    expect(gradient[3]).toBeCloseTo(0.5 / 5, 12);
  });

  test("the overlong penalty and the KL cost are part of the reward", () => {
    const reference_BT = full([4, 3], -1.5, float64);
    const batch = exampleBatch([1, 0, 1, 0], { referenceLogprobs_BT: reference_BT });
    const scored = buildRecipe({
      type: "grpo",
      scale: "none",
      overlong: { maxTokens: 3, bufferTokens: 2 },
      klReward: { coefficient: 0.1 },
    }).score(batch);
    const metrics = readCorrectionMetrics(scored.metrics);
    // Row 0: 1 - 1 (length 3) - 0.1 * 0.5 * 3; row 1: 0 - 0.5 (length 2) - 0.1 * 0.5 * 2; their difference halved is A.
    expect(scored.advantages_BT.toArray()[0]).toBeCloseTo((1 - 1 - 0.15 - (0 - 0.5 - 0.1)) / 2, 12);
    expect(metrics["score/reward"]).toBeCloseTo(0.5, 12);
    // The mean over the tokens of each row, whose count has 1e-8 added.
    expect(metrics["score/reference_kl"]).toBeCloseTo(0.5, 7);
  });

  test("the terms of the loss add up to it", () => {
    const { loss, terms } = trainOnce(
      { type: "grpo", klLoss: { coefficient: 0.1, estimator: "k2" } },
      exampleBatch([1, 0, 1, 0], { referenceLogprobs_BT: full([4, 3], -2, float64) }),
    );
    // k2 of a gap of 1 is 0.5.
    expect(terms.kl?.item()).toBeCloseTo(0.05, 9);
    expect(loss).toBeCloseTo(terms.policy!.item() + terms.kl!.item(), 12);
  });

  test("ppo bootstraps truncated rows, and only those", () => {
    const batch = exampleBatch([0, 0, 0, 0], {
      values_BT: full([4, 3], 0, float64),
      bootstrapValues_B: full([4], 2, float64),
    });
    const choice = { type: "ppo", lambda: 1, whitensAdvantages: false } as const;
    const scored = buildRecipe({ ...choice, bootstrapsTruncated: true }).score(batch);
    expect(scored.returns_BT?.toArray()).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2]);
    expect(buildRecipe(choice).score(batch).returns_BT?.toArray()).toEqual(new Array(12).fill(0));
  });

  test("a critic that knows half of every return explains three quarters of their variance", () => {
    const explained = (rewards: number[]) => {
      const values_BT = tensor(
        rewards.map((reward) => [reward / 2, reward / 2, 0]),
        float64,
      );
      return buildRecipe({ type: "ppo", lambda: 1 })
        .score(exampleBatch(rewards, { values_BT }))
        .metrics["value/explained_variance"]!.item();
    };
    expect(explained([1, 0, 1, 0])).toBeCloseTo(0.75, 12);
    expect(explained([0, 0, 0, 0])).toBeNaN();
  });

  describe("two wins of one row against two losses of eight", () => {
    const lengths = [1, 1, 8, 8];
    const trajectoryOf = lengths.flatMap((length, trajectory) => new Array<number>(length).fill(trajectory));
    const forked: TokenBatch = {
      samplerLogprobs_BT: full([18, 2], -1, float64),
      anchorLogprobs_BT: full([18, 2], -1, float64),
      rewards_BT: tensor(
        trajectoryOf.map((trajectory) => [0, trajectory < 2 ? 1 : 0]),
        float64,
      ),
      lossMask_BT: full([18, 2], 1, float64).ne(0),
      groupOf: trajectoryOf.map(() => 7),
      trajectoryOf,
      turnOf: trajectoryOf.map((_, row) => row),
      isTruncated: trajectoryOf.map(() => false),
    };

    test.each([
      [{ type: "grpo" }, Math.sqrt(3) / 2],
      [{ type: "grpo", scale: "batch-std" }, Math.sqrt(3) / 2],
      [{ type: "dr-grpo", maxResponseLength: 16 }, 1 / 2],
      [{ type: "rloo" }, 2 / 3],
      [{ type: "maxrl" }, 1],
      [{ type: "gpg" }, 1 / 2],
    ] as const)("%j compares trajectories, each once", (choice, win) => {
      const { scored } = trainOnce(choice, forked);
      const advantages = scored.advantages_BT.toArray();
      expect(advantages[0]).toBeCloseTo(win, 5);
      expect(advantages.at(-1)).toBeCloseTo(-win, 5);
      expect(readCorrectionMetrics(scored.metrics)["score/reward"]).toBe(0.5);
    });

    test("opo weighs by the length of trajectories, and the tokens of all rows count", () => {
      // Two wins of 2 tokens, two losses of 16: the baseline is 4 / 36.
      const advantages = trainOnce({ type: "opo" }, forked).scored.advantages_BT.toArray();
      expect(advantages[0]).toBeCloseTo(1 - 4 / 36, 12);
    });

    test("a loss pulls as hard as a win, over all of its rows", () => {
      const { gradient, scored } = trainOnce({ type: "grpo" }, forked);
      const pull = (from: number, to: number) =>
        gradient.slice(2 * from, 2 * to).reduce((sum, value) => sum + value, 0);
      expect(scored.denominators).toMatchObject({ numSequences: 18, numTrajectories: 4 });
      expect(pull(0, 1)).toBeCloseTo(-0.866 / 4, 4);
      expect(pull(2, 10)).toBeCloseTo(0.866 / 4, 4);
    });

    test("a group is flat where its trajectories are, whatever their turns gave", () => {
      const even = tensor(
        trajectoryOf.map((trajectory, row) => [
          0,
          trajectory < 2 ? 1 : row === 2 || row === 10 ? 3 : row === 3 || row === 11 ? -2 : 0,
        ]),
        float64,
      );
      expect(trainOnce({ type: "dapo" }, { ...forked, rewards_BT: even }).scored.denominators.numTokens).toBe(0);
      expect(trainOnce({ type: "dapo" }, forked).scored.denominators.numTokens).toBe(36);
    });

    test("the side that topr takes is that of the whole trajectory", () => {
      const { scored } = trainOnce({ type: "topr" }, forked);
      expect(scored.rewards_B.toArray()).toEqual(trajectoryOf.map((trajectory) => (trajectory < 2 ? 1 : 0)));
    });
  });

  test("returns and bootstrap run along the trajectory, through all of its rows", () => {
    const batch: TokenBatch = {
      samplerLogprobs_BT: full([3, 1], -1, float64),
      anchorLogprobs_BT: full([3, 1], -1, float64),
      values_BT: full([3, 1], 0, float64),
      bootstrapValues_B: tensor([50, 10, 70], float64),
      // Rows out of order: the turns say which comes first.
      rewards_BT: tensor([[0], [-2], [1]], float64),
      lossMask_BT: full([3, 1], 1, float64).ne(0),
      groupOf: [0, 0, 0],
      trajectoryOf: [4, 4, 4],
      turnOf: [1, 2, 0],
      isTruncated: [true, true, true],
    };
    const choice = { type: "ppo", lambda: 1, whitensAdvantages: false } as const;
    const returnsOf = (more: object) =>
      buildRecipe({ ...choice, ...more })
        .score(batch)
        .returns_BT?.toArray();
    expect(returnsOf({})).toEqual([-2, -2, -1]);
    expect(returnsOf({ bootstrapsTruncated: true })).toEqual([8, 8, 9]);
    expect(returnsOf({ gamma: 0.5 })).toEqual([-1, -2, 0.5]);
  });

  test("what bypass mode rejects is missing from what is kept", () => {
    const correction = { rejections: { token_k1: "0.5_2.0" } };
    const recipe = buildRecipe({ type: "grpo", bypass: {}, correction, masksTruncated: true });
    const batch = exampleBatch([1, 0, 1, 0]);
    const rows = recipe.score(batch);
    // Of 10 tokens the truncated row has 3, and two more are far from the sampler.
    const policyLogprobs_BT = tensor(
      [
        [-1, -5, -1],
        [-5, -1, -1],
        [-1, -1, -1],
        [-1, -1, -1],
      ],
      float64,
    );
    const { metrics } = recipe.loss({ rows, policyLogprobs_BT }, rows.denominators);
    expect(readMetrics(metrics)["score/kept_fraction"]).toBeCloseTo(0.5, 12);
    const whole = readCorrectionMetrics(recipe.correctionMetrics({ rows, policyLogprobs_BT }));
    expect(whole["rollout_corr/rollout_rs_masked_fraction"]).toBeCloseTo(2 / 7, 7);
  });

  test("a trajectory in two groups, or with one turn twice, is refused", () => {
    const score = (over: Partial<TokenBatch>) => () =>
      buildRecipe({ type: "grpo" }).score(exampleBatch([1, 0, 1, 0], over));
    expect(score({ trajectoryOf: [0, 1, 1, 2], turnOf: [0, 0, 1, 0] })).toThrow(
      /^Rows 1 and 2 are both of trajectory 1, but of groups 0 and 1\. A trajectory belongs to one group/,
    );
    expect(score({ trajectoryOf: [0, 0, 1, 2] })).toThrow(
      /^turnOf\[1\] is 0, which another row of the same trajectory has/,
    );
    expect(score({ trajectoryOf: [0, 1, 2] })).toThrow(/^trajectoryOf has 3 entries for 4 rows/);
  });

  test("the recipe state follows what was measured", () => {
    const recipe = buildRecipe({
      type: "grpo",
      klReward: { coefficient: 0.1, adaptive: { targetKl: 0.05, horizon: 100 } },
      entropy: { type: "adaptive", target: 0.5, stepSize: 0.01 },
    });
    const next = recipe.advance(recipe.initialState, { referenceKl: 1, entropy: 0.2, numTrajectories: 10 });
    // A KL far above its target is corrected by at most a fifth, over 10 of 100 rows.
    expect(next.klReward?.coefficient).toBeCloseTo(0.1 * (1 + (0.2 * 10) / 100), 12);
    expect(next.entropy?.coefficient).toBeCloseTo(0.01, 12);
    expect(() => recipe.advance(recipe.initialState, { numTrajectories: 10 })).toThrow(/referenceKl is missing/);
  });
});

describe("rewards", () => {
  const earned = [0, 2, 4].map((reward) => ({ domain: "math", reward }));

  test("normalized rewards are those of their domain's scale, and so is a greedy baseline", () => {
    const recipe = buildRecipe({ type: "remax", rewardNormalization: {} });
    // Mean 2 and deviation 2; "code" has no rewards yet and stays as it is.
    const state = recipe.observe(recipe.initialState, earned);
    const batch = exampleBatch([4, 1, 2, 1], {
      domainOf: ["math", "math", "math", "code"],
      greedyOf: [0, 0, 2, 0].map((reward) => ({ rewards: [reward], numTokens: 3, isTruncated: false })),
    });
    const { advantages_BT } = recipe.score(batch, state);
    // (4 - 2) / 2 + 1, (1 - 2) / 2 + 1, 0 - 0, and 1 - 0.
    expect(advantages_BT.select(1, 0).toArray()).toEqual([2, 0.5, 0, 1]);
    expect(recipe.stateMetrics(state)).toEqual({ "score/reward_mean_math": 2, "score/reward_std_math": 2 });
  });

  test("without centering rewards are divided alone, and a trajectory that was cut pays its penalty after that", () => {
    const recipe = buildRecipe({
      type: "reinforce",
      rewardNormalization: { isCentered: false },
      truncatedPenalty: 0.25,
    });
    const batch = exampleBatch([4, 1, 2, 1], { domainOf: new Array<string>(4).fill("math") });
    const { metrics } = recipe.score(batch, recipe.observe(recipe.initialState, earned));
    // (2 + 0.5 + 1 + 0.5 - 0.25) / 4
    expect(metrics["score/shaped_reward"]?.item()).toBeCloseTo(0.9375, 12);
    expect(metrics["score/reward"]?.item()).toBe(2);
  });

  test("a state that is resumed keeps what was learned, and takes options as they are now", () => {
    const saved = buildRecipe({
      type: "grpo",
      klReward: { coefficient: 0.1, adaptive: { targetKl: 0.05 } },
      entropy: { type: "fixed", coefficient: 0.01 },
      rewardNormalization: {},
    });
    const learned = saved.observe(
      { ...saved.initialState, klReward: { type: "adaptive", coefficient: 0.3, targetKl: 0.05, horizon: 10_000 } },
      earned,
    );
    const now = buildRecipe({
      type: "grpo",
      klReward: { coefficient: 0.1, adaptive: { targetKl: 0.2, horizon: 50 } },
      entropy: { type: "fixed", coefficient: 0.02 },
      rewardNormalization: {},
    });
    expect(now.resume(learned)).toEqual({
      klReward: { type: "adaptive", coefficient: 0.3, targetKl: 0.2, horizon: 50 },
      entropy: { type: "fixed", coefficient: 0.02 },
      rewards: { math: { count: 3, mean: 2, squares: 8 } },
    });
    const fixed = buildRecipe({ type: "grpo", klReward: { coefficient: 0.5 } });
    expect(fixed.resume(learned)).toEqual(fixed.initialState);
    expect(now.resume(fixed.initialState)).toEqual(now.initialState);
  });
});

describe("every recipe", () => {
  test.each(Object.keys(recipes) as RecipeName[])(
    "%s carries its own name as tag, and describes its options",
    (name) => {
      const schema = recipeJsonSchema(name);
      expect(schema.properties?.type).toMatchObject({ const: name });
      expect(schema.additionalProperties).toBe(false);
      const silent = Object.entries(schema.properties ?? {}).filter(
        ([key, value]) => key !== "type" && (typeof value !== "object" || value.description === undefined),
      );
      expect(silent).toEqual([]);
    },
  );

  test.each(Object.keys(recipes) as RecipeName[])(
    "%s has loss 0 and gradient 0 when all tokens are rejected",
    (name) => {
      const isOwnWeight = name === "decoupled-ppo";
      const choice = {
        type: name,
        ...(name === "dr-grpo" && { maxResponseLength: 3 }),
        correction: {
          rejections: { token_k1: "0.9_1.1" },
          importance: isOwnWeight ? null : { level: "token", threshold: 2, isSelfNormalized: true },
        },
        whitensAdvantages: true,
      };
      const batch = exampleBatch([1, 0, 1, 0], {
        anchorLogprobs_BT: full([4, 3], -2, float64),
        values_BT: full([4, 3], 0, float64),
        greedyOf: Array.from({ length: 4 }, () => ({ rewards: [0.5], numTokens: 3, isTruncated: false })),
        stateOf: ["a", "a", "a", "b"],
      });
      const recipe = recipes[name].build(choice);
      const scored = recipe.score(batch);
      const policyLogprobs_BT = batch.samplerLogprobs_BT.clone();
      policyLogprobs_BT.requiresGrad = true;
      const values_BT = full([4, 3], 1, float64);
      const { loss } = recipe.loss({ rows: scored, policyLogprobs_BT, values_BT }, scored.denominators);
      expect(loss.item()).toBeCloseTo(0, 12);
      expect(gradients([loss], [policyLogprobs_BT])[0]?.toArray().map(Math.abs)).toEqual(new Array(12).fill(0));
    },
  );
});

describe("errors", () => {
  const build = (choice: Record<string, unknown>) => () => buildRecipe(choice as RecipeChoice);

  test("an unknown key names the nearest known one", () => {
    expect(build({ type: "grpo", clipHgh: 0.3 })).toThrow(
      /^algorithm\.clipHgh is not an option\. Did you mean clipHigh\? Known are: type, numEpochs/,
    );
    expect(build({ type: "grpo", correction: { rejection: {} } })).toThrow(
      /^algorithm\.correction\.rejection is not an option\. Did you mean rejections\?/,
    );
  });

  test("a wrong value is shown with its key", () => {
    expect(build({ type: "grpo", clipLow: 2 })).toThrow(/^algorithm\.clipLow is not valid: got 2\./);
    expect(build({ type: "dr-grpo" })).toThrow(/^algorithm\.maxResponseLength is missing\./);
    expect(build({ type: "gropo" })).toThrow(/^algorithm\.type must name a recipe: got "gropo"\. Known are: ppo, grpo/);
  });

  test.each([
    [
      { type: "grpo", clipLow: 0.2, clipHigh: 0.1 },
      /^algorithm\.clipHigh must be at least algorithm\.clipLow: got 0\.1/,
    ],
    [{ type: "grpo", bypass: {}, numEpochs: 2 }, /meant for one epoch: got 2/],
    [{ type: "grpo", bypass: { loss: "reinforce" } }, /correction is null: nothing would correct for the sampler/],
    [{ type: "grpo", correction: {} }, /^algorithm\.correction corrects nothing/],
    [{ type: "grpo", correction: { importance: { level: "token" } } }, /correction\.importance\.threshold is missing/],
    [
      { type: "grpo", correction: { convention: "verl", scope: "sequence", rejections: { token_k1: 2 } } },
      /belong to the ratio convention/,
    ],
    [{ type: "grpo", correction: { rejections: { token_k1: "2_0.5" } } }, /lower bound first/],
    [{ type: "grpo", klReward: { coefficient: 0, adaptive: { targetKl: 1 } } }, /klReward\.coefficient is 0/],
    [{ type: "maxrl", klReward: { coefficient: 0.1 } }, /^algorithm\.klReward makes rewards negative/],
    [{ type: "decoupled-ppo", bypass: {} }, /^algorithm\.bypass makes the sampler the anchor/],
    [
      { type: "decoupled-ppo", correction: { importance: { level: "token", threshold: 2 } } },
      /which decoupled-ppo does itself/,
    ],
    [{ type: "clip-cov", covarianceLow: 6 }, /covarianceLow must be below/],
    [{ type: "truncated-is", ratioLow: 2 }, /ratioLow must be at most/],
    [{ type: "ppo", outliers: { of: "ratio", low: 2, high: 1 } }, /outliers\.low must be at most/],
  ])("%j contradicts itself", (choice, message) => {
    expect(build(choice)).toThrow(message);
  });

  test("cispo without a lower bound takes any upper one", () => {
    expect(buildRecipe({ type: "cispo", clipHigh: 0.28 }).type).toBe("cispo");
  });

  test("an anchor that is the policy itself changes no score, and is refused where scores read it", () => {
    const batch = exampleBatch([1, 0, 1, 0], { referenceLogprobs_BT: full([4, 3], -2, float64) });
    const off = { ...batch, anchorLogprobs_BT: full([4, 3], -1.3, float64) };
    const scoresOf = (choice: RecipeChoice, given: TokenBatch) => {
      const { advantages_BT, lossMask_BT, denominators } = buildRecipe(choice).score(given);
      return [advantages_BT.toArray(), lossMask_BT.toArray(), denominators];
    };
    for (const type of ["grpo", "dapo", "gspo", "rloo", "cispo"] as const)
      expect(scoresOf({ type }, { ...batch, anchorLogprobs_BT: null })).toEqual(scoresOf({ type }, off));
    const readers: RecipeChoice[] = [
      { type: "clip-cov" },
      { type: "grpo", klReward: { coefficient: 0.1 } },
      { type: "grpo", correction: { importance: { level: "token", threshold: 2 } } },
      { type: "grpo", outliers: { of: "ratio", low: 0.5, high: 2 } },
    ];
    for (const choice of readers) {
      expect(buildRecipe(choice).scoresAnchor).toBe(true);
      expect(() => buildRecipe(choice).score({ ...batch, anchorLogprobs_BT: null })).toThrow(
        /^anchorLogprobs_BT is missing from the batch/,
      );
    }
  });

  test("a missing input is named with its meaning", () => {
    const { anchorLogprobs_BT: _, ...batch } = exampleBatch([1, 0, 1, 0]);
    expect(() => buildRecipe({ type: "remax" }).score(exampleBatch([1, 0, 1, 0]))).toThrow(
      /^greedyOf is missing from the batch: remax with these options needs the reward, the length and the end of the greedy reply/,
    );
    expect(() => buildRecipe({ type: "grpo" }).score(batch)).toThrow(/^anchorLogprobs_BT is missing/);
    expect(buildRecipe({ type: "grpo", bypass: {} }).score(batch).anchorLogprobs_BT!.toArray()[0]).toBe(-1);
    const recipe = buildRecipe({ type: "grpo", entropy: { type: "fixed", coefficient: 0.01 } });
    const scored = recipe.score(exampleBatch([1, 0, 1, 0]));
    expect(() =>
      recipe.loss({ rows: scored, policyLogprobs_BT: scored.anchorLogprobs_BT! }, scored.denominators),
    ).toThrow(/^entropies_BT is missing from the microbatch/);
  });
});
