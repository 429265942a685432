import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { measureKl, penalizeRewards } from "./penalty.ts";

const lossMask_BT = tensor(
  [
    [1, 1],
    [1, 0],
    [0, 0],
  ],
  { dtype: "bool" },
);
const kl_BT = tensor(
  [
    [1, 3],
    [4, Number.NaN],
    [9, 9],
  ],
  { dtype: "float64" },
);

test("loss tokens pay for their KL, others keep their reward", () => {
  const rewards = penalizeRewards(
    tensor(
      [
        [0, 1],
        [0, 7],
        [5, 5],
      ],
      { dtype: "float64" },
    ),
    kl_BT,
    lossMask_BT,
    0.5,
  );
  expect(rewards.toArray()).toEqual([-0.5, -0.5, -2, 7, 5, 5]);
});

test("the measured KL is the mean over rows of the mean over tokens", () => {
  expect(measureKl(kl_BT, lossMask_BT)).toBeCloseTo((2 + 4 + 0) / 3, 7);
});

test("a negative coefficient is refused", () => {
  expect(() => penalizeRewards(kl_BT, kl_BT, lossMask_BT, -1)).toThrow(/coefficient must be at least 0: got -1/);
});
