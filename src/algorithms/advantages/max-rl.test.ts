import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { maxRl } from "./max-rl.ts";

test("a rare success weighs as much as its prompt is hard", () => {
  // One success of four has mean 1/4: (1 - 1/4) / (1/4) = 3 and -1.
  const advantages = maxRl(tensor([0, 1, 0, 0, 1, 1], { dtype: "float64" }), [0, 0, 0, 0, 1, 1]);
  expect(advantages.toArray()).toEqual([-1, 3, -1, -1, 0, 0]);
});

test("a group without success gives 0", () => {
  expect(maxRl(tensor([0, 0]), [0, 0]).toArray()).toEqual([0, 0]);
});

test("a negative reward is refused", () => {
  expect(() => maxRl(tensor([1, -0.5]), [0, 0])).toThrow(/rewards_B\[1\] is -0.5. MaxRL divides by the mean reward/);
});
