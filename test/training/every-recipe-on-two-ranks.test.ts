/** Every recipe on two ranks against one process: the weights and metrics after three steps do not depend on what ranks share. */
import { beforeAll, describe, expect, test } from "vitest";
import type { Metrics } from "../../src/flow/metrics.ts";
import { meshOfOne } from "../../src/training/strategy/mesh.ts";
import { spreadStrategy } from "../../src/training/strategy/spread-strategy.ts";
import { launchRanks, type RankOutcome } from "../torch/ranks/launch-ranks.ts";
import { batchOf, trainerOf, trainingCases, weightsOf } from "./token-batches.ts";

interface Trained {
  readonly weights: readonly number[];
  readonly metrics: readonly Metrics[];
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
    "$name, $family, ranks share $spread: three steps give the weights and metrics of one process",
    async ({ index, ...one }) => {
      const [first, second] = outcomes.map(({ reports }) => reports[index] as Trained);
      expect(second!.weights).toEqual(first!.weights);
      const { model, trainer } = await trainerOf(
        one,
        spreadStrategy(meshOfOne, { zero: 0, offload: "none" }, "cpu"),
        1,
      );
      const before = weightsOf(model);
      let numUpdates = 0;
      for (let step = 0; step < 3; step++) {
        const done = await trainer.step(batchOf(one.batch, step));
        numUpdates += done.numUpdates;
        for (const [name, value] of Object.entries(done.metrics)) {
          const gap = Math.abs(first!.metrics[step]![name]! - value) / Math.max(1, Math.abs(value));
          // The extremes, and the mean of squared ratios, show the rounding of single tokens.
          const bound = /_(min|max)$|chi2/.test(name) ? 5e-6 : 1e-6;
          expect(gap, `${name} of step ${step}`).toBeLessThan(bound);
        }
      }
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
