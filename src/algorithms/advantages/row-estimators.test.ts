/** What all estimators of one advantage per row promise. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { memoryStats } from "../../torch/memory.ts";
import { tensorScope } from "../../torch/scope.ts";
import type { Tensor } from "../../torch/tensor.ts";
import { gpg } from "./gpg.ts";
import { groupRelative } from "./group-relative.ts";
import { leaveOneOut } from "./leave-one-out.ts";
import { maxRl } from "./max-rl.ts";
import { normalizeRewards } from "./normalize-rewards.ts";
import { optimalBaseline } from "./opo.ts";
import { passAtK } from "./pass-at-k.ts";

type Estimator = (rewards_B: Tensor, groupOf: readonly number[]) => Tensor;

const estimators: Readonly<Record<string, Estimator>> = {
  "group-relative": (rewards_B, groupOf) => groupRelative(rewards_B, groupOf),
  "group-relative by batch": (rewards_B, groupOf) => groupRelative(rewards_B, groupOf, { scale: "batch-std" }),
  "group-relative without scale": (rewards_B, groupOf) => groupRelative(rewards_B, groupOf, { scale: "none" }),
  "normalized by batch": (rewards_B, groupOf) =>
    normalizeRewards(rewards_B, groupOf, { mean: "batch", deviation: "batch" }),
  "leave-one-out": (rewards_B, groupOf) => leaveOneOut(rewards_B, groupOf),
  "optimal baseline": (rewards_B, groupOf) =>
    tensorScope(() => {
      const rows = Array.from({ length: rewards_B.size(0) }, () => [1, 1]);
      return optimalBaseline(rewards_B, tensor(rows, { dtype: "bool" }), groupOf);
    }),
  gpg: (rewards_B, groupOf) => gpg(rewards_B, groupOf),
  "pass@k": (rewards_B, groupOf) => passAtK(rewards_B, groupOf),
  maxrl: (rewards_B, groupOf) => maxRl(rewards_B, groupOf),
};

const rows = fc.array(
  fc.record({
    reward: fc.integer({ min: 0, max: 20 }).map((tenths) => tenths / 10),
    group: fc.integer({ min: 0, max: 3 }),
    order: fc.integer(),
  }),
  { minLength: 1, maxLength: 12 },
);

describe.each(Object.entries(estimators))("%s", (_, estimate) => {
  const run = (rewards: readonly number[], groupOf: readonly number[]) =>
    tensorScope(() => estimate(tensor(rewards, { dtype: "float64" }), groupOf).toArray());

  test("moves with the rows, whatever the groups are called", () => {
    const property = fc.property(rows, (some) => {
      const moved = some.toSorted((a, b) => a.order - b.order);
      const there = run(
        some.map(({ reward }) => reward),
        some.map(({ group }) => group),
      );
      const back = run(
        moved.map(({ reward }) => reward),
        moved.map(({ group }) => 100 - 7 * group),
      );
      moved.forEach((row, i) => {
        expect(back[i]).toBeCloseTo(there[some.indexOf(row)]!, 9);
      });
    });
    fc.assert(property, { numRuns: 50 });
  });

  test("is 0 when all rewards are equal, and for a single row", () => {
    expect(run([0.1, 0.1, 0.1, 0.1, 0.1], [0, 0, 1, 1, 2]).map(Math.abs)).toEqual([0, 0, 0, 0, 0]);
    expect(run([0.7], [3]).map(Math.abs)).toEqual([0]);
  });

  test("gives the same in float32, in its type", () => {
    const [rewards, groupOf] = [
      [0, 1, 0.5, 0.25],
      [0, 0, 1, 1],
    ];
    const single = estimate(tensor(rewards), groupOf);
    expect(single.dtype).toBe("float32");
    expect(single.toArray()).toEqual(run(rewards, groupOf).map((value) => expect.closeTo(value, 5)));
  });

  test("refuses rewards that are not numbers and group lists of another length", () => {
    expect(() => run([1, Number.NaN], [0, 0])).toThrow(/rewards_B must be finite: got NaN at \[1\]/);
    expect(() => run([Number.POSITIVE_INFINITY], [0])).toThrow(/rewards_B must be finite: got Infinity/);
    expect(() => run([1, 2], [0])).toThrow(/has 1 entries for 2 rows/);
  });

  test("leaves one tensor behind, its result", () => {
    const rewards_B = tensor([0, 1, 2]);
    const before = memoryStats().liveTensors;
    const advantages_B = estimate(rewards_B, [0, 0, 0]);
    expect(memoryStats().liveTensors).toBe(before + 1);
    advantages_B.dispose();
  });
});
