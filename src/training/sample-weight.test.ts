import { expect, test } from "vitest";
import { buildRecipe } from "../algorithms/recipes/table.ts";
import type { TokenSample } from "../flow/token-sample.ts";
import { tinyConfig, tinyModel } from "../testing/tiny-model.ts";
import { constantRate } from "../torch/optim/schedule.ts";
import { SGD } from "../torch/optim/sgd.ts";
import { tensorScope } from "../torch/scope.ts";
import { TokenTrainer } from "./token-trainer.ts";

function sampleOf(reply: number, reward: number, group: number, trajectory: number, weight?: number): TokenSample {
  return {
    tokenIds: Int32Array.of(3 + group, 5, reply),
    lossMask: Uint8Array.of(0, 0, 1),
    samplerLogprobs: Float32Array.of(0, 0, -3),
    versions: Int32Array.of(-1, -1, 0),
    rewards: Float32Array.of(0, 0, reward),
    ...{ group, trajectory, turn: 0, stateKey: "s", isTruncated: false },
    ...(weight !== undefined && { weight }),
  };
}

/** How far one step of plain gradient descent moves every weight, with the second group weighted. */
async function moves(weight: number | undefined): Promise<number[]> {
  const model = tinyModel(tinyConfig("qwen3"));
  const read = () =>
    tensorScope(() => [...model.namedParameters().values()].flatMap((value) => value.detach().reshape(-1).toArray()));
  const before = read();
  const trainer = new TokenTrainer({
    model,
    recipe: buildRecipe({ type: "grpo" }),
    optimizer: new SGD(model.namedParameters(), { lr: 0.1 }),
    schedule: constantRate(),
    ...{ reference: null, critic: null },
    options: {
      ...{ temperature: 1, maxTokensPerMicrobatch: 64, minibatchTrajectories: 0, maxGradNorm: 1e9 },
      ...{ recompute: false, seed: 1 },
    },
  });
  const samples = [
    ...[sampleOf(7, 1, 0, 0), sampleOf(8, 0, 0, 1)],
    ...[sampleOf(9, 1, 1, 2, weight), sampleOf(10, 0, 1, 3, weight)],
  ];
  await trainer.step({ samples, version: 0 });
  const moved = read().map((value, i) => value - before[i]!);
  model.dispose();
  return moved;
}

test("the gradient of a sample is multiplied by its weight, and that of the others is not", async () => {
  const [plain, one, half, none] = await Promise.all([moves(undefined), moves(1), moves(0.5), moves(0)]);
  expect(one).toEqual(plain);
  // Linear: with weight 1/2 every weight lies half way between that with 1 and that with 0.
  const gap = half!.reduce((most, value, i) => Math.max(most, Math.abs(value - (plain![i]! + none![i]!) / 2)), 0);
  const change = plain!.reduce((most, value, i) => Math.max(most, Math.abs(value - none![i]!)), 0);
  expect(gap).toBeLessThan(1e-6);
  expect(change).toBeGreaterThan(1e-3);
});
