import { beforeAll, describe, expect, test } from "vitest";
import { launchRanks, type RankOutcome } from "../torch/ranks/launch-ranks.ts";
import { batchOf, newModel, trainerOf, trainingCases, weightsOf } from "./token-batches.ts";

interface Trained {
  readonly weights: readonly number[];
  readonly numUpdates: number;
}

describe("two ranks", () => {
  let outcomes: readonly RankOutcome[];
  beforeAll(async () => {
    outcomes = await launchRanks("token-training.ts", 2);
  });

  test("run to their end", () => {
    for (const outcome of outcomes) expect(outcome).toMatchObject({ exitCode: 0, errors: "" });
  });

  test.each(trainingCases.map((one, index) => ({ ...one, index })))(
    "$name: three steps give the weights of one process with the whole batch",
    async ({ index, choice, minibatchTrajectories, batch }) => {
      const [first, second] = outcomes.map(({ reports }) => reports[index] as Trained);
      expect(second!.weights).toEqual(first!.weights);
      const model = newModel(1);
      const before = weightsOf(model);
      const trainer = trainerOf(model, choice, { minibatchTrajectories });
      let numUpdates = 0;
      for (let step = 0; step < 3; step++) numUpdates += (await trainer.step(batchOf(batch, step))).numUpdates;
      const alone = weightsOf(model);
      model.dispose();
      expect(first!.numUpdates).toBe(numUpdates);
      expect(largestGap(alone, before)).toBeGreaterThan(5e-4);
      expect(largestGap(first!.weights, alone)).toBeLessThan(1e-5);
    },
  );
});

function largestGap(left: readonly number[], right: readonly number[]): number {
  expect(left.length).toBe(right.length);
  return left.reduce((most, value, i) => Math.max(most, Math.abs(value - right[i]!)), 0);
}
