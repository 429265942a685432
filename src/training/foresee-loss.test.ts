import { describe, expect, test } from "vitest";
import { buildRecipe, type RecipeChoice } from "../algorithms/recipes/table.ts";
import type { TokenBatch } from "../flow/token-batch.ts";
import { gradients } from "../torch/autograd.ts";
import { ones, randn, tensor } from "../torch/create.ts";
import { Generator } from "../torch/random.ts";
import { tensorScope } from "../torch/scope.ts";
import type { Tensor } from "../torch/tensor.ts";
import { LossForesight } from "./foresee-loss.ts";
import { toGrid } from "./token-rows.ts";

const [numRows, numColumns] = [4, 5];
const entropy = { type: "fixed", coefficient: 0.02 } as const;

describe.each<RecipeChoice>([
  { type: "grpo", klLoss: { coefficient: 0.1 }, entropy },
  { type: "dapo" },
  { type: "cispo" },
  { type: "decoupled-ppo", reduction: { type: "prompt-mean" } },
  { type: "grpo", bypass: { loss: "reinforce" }, correction: { importance: { level: "token", threshold: 2 } } },
])("the gradients of $type", (choice) => {
  test("are foreseen to the bit, three tokens at a time", () => expectForeseen(choice, false));

  test("are those that come where the policy is its own anchor", () => expectForeseen(choice, true));
});

function expectForeseen(choice: RecipeChoice, isOwnAnchor: boolean): void {
  tensorScope(() => {
    const generator = new Generator(3);
    const like = (x: Tensor, spread: number) => x.add(randn([numRows, numColumns], { generator }).mul(spread));
    const samplerLogprobs_BT = like(ones([numRows, numColumns]).mul(-2), 0.5);
    const batch: TokenBatch = {
      samplerLogprobs_BT,
      anchorLogprobs_BT: like(samplerLogprobs_BT, 0.1),
      referenceLogprobs_BT: like(samplerLogprobs_BT, 0.3),
      rewards_BT: like(ones([numRows, numColumns]), 1),
      lossMask_BT: ones([numRows, numColumns]).gt(0),
      ...{ groupOf: [0, 0, 1, 1], trajectoryOf: [0, 1, 2, 3], turnOf: [0, 0, 0, 0] },
      isTruncated: [false, false, false, false],
    };
    const recipe = buildRecipe(choice);
    const scored = recipe.score(batch);
    const rows = isOwnAnchor ? { ...scored, anchorLogprobs_BT: null } : scored;
    const N = numRows * numColumns;
    const cells_N = tensor(
      Int32Array.from({ length: N }, (_, i) => i),
      [N],
      { dtype: "int64" },
    );
    const onGrid = (values_N: Tensor) => toGrid(values_N, { cells_N, numRows, numColumns });
    const logprobs_N = like(samplerLogprobs_BT, 0.4).view(-1);
    const entropies_N = like(ones([numRows, numColumns]), 0.3).view(-1);
    logprobs_N.requiresGrad = true;
    entropies_N.requiresGrad = true;
    const seen = { policyLogprobs_BT: onGrid(logprobs_N), entropies_BT: onGrid(entropies_N) };
    const { loss } = recipe.loss({ rows, ...seen }, rows.denominators);
    const arrived = gradients([loss], [logprobs_N, entropies_N]).map((gradient) => gradient?.toArray() ?? null);

    const foresee = new LossForesight(recipe).of(rows, rows.denominators, { cells_N, numRows, numColumns })!;
    const parts = [0, 3, 6, 9, 12, 15, 18].map((start) => {
      const part = (x: Tensor) => x.detach().narrow(0, start, Math.min(3, N - start));
      return foresee({ logprob: part(logprobs_N), entropy: part(entropies_N) }, part);
    });
    const foreseen = (["logprob", "entropy"] as const).map((name) =>
      parts[0]![name] === null ? null : parts.flatMap((part) => part[name]!.toArray()),
    );
    expect(foreseen).toEqual(arrived);
    const whole = (x: Tensor) => x;
    const ahead = foresee.ahead?.(whole) ?? null;
    if (ahead !== null) expect([ahead.logprob, ahead.entropy].map((all) => all?.toArray() ?? null)).toEqual(arrived);
    expect(arrived[0]!.some((value) => value !== 0)).toBe(true);
  });
}
