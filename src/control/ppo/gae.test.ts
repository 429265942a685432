import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { controlGae } from "./gae.ts";

const double = (values: number[] | number[][]) => tensor(values, { dtype: "float64" });
const bool = (values: number[][]) => tensor(values, { dtype: "bool" });
const close = (values: number[]) => values.map((value) => expect.closeTo(value, 10));
const options = { gamma: 0.5, lambda: 0.5 };
const never = bool([
  [0, 0, 0],
  [0, 0, 0],
]);
// Two ticks of three environments, each with values 1 then 2, reward 1 per tick, and value 4 afterwards.
const ticks = {
  rewards_TN: double([
    [1, 1, 1],
    [1, 1, 1],
  ]),
  values_TN: double([
    [1, 1, 1],
    [2, 2, 2],
  ]),
  lastValues_N: double([4, 4, 4]),
};

test("gae over ticks goes on past an end of neither kind, and stops at terminated and truncated", () => {
  const { advantages_TN, returns_TN } = controlGae(
    {
      ...ticks,
      terminated_TN: bool([
        [0, 1, 0],
        [0, 0, 0],
      ]),
      truncated_TN: bool([
        [0, 0, 1],
        [0, 0, 0],
      ]),
      finalValues_TN: double([
        [Number.NaN, Number.NaN, 6],
        [0, 0, 0],
      ]),
    },
    options,
  );
  // Tick 1: 1 + .5*4 - 2 = 1 for all. Tick 0: 1 + .5*2 - 1 + .25*1; 1 - 1; 1 + .5*6 - 1.
  expect(advantages_TN.toArray()).toEqual(close([1.25, 0, 3, 1, 1, 1]));
  expect(returns_TN.toArray()).toEqual(close([2.25, 1, 4, 3, 3, 3]));
});

test("terminated wins over truncated at the same tick", () => {
  const both = bool([
    [0, 0, 0],
    [1, 0, 0],
  ]);
  const { advantages_TN } = controlGae({ ...ticks, terminated_TN: both, truncated_TN: both }, options);
  expect(advantages_TN.toArray().slice(3)).toEqual(close([-1, 1, 1]));
});

test("a truncated tick needs the value of the final observation", () => {
  const truncated_TN = bool([
    [0, 0, 0],
    [0, 1, 0],
  ]);
  expect(() => controlGae({ ...ticks, terminated_TN: never, truncated_TN })).toThrow(
    /environment 1 was truncated at tick 1, but finalValues_TN is missing/,
  );
});

test("ticks and environments must be the same in all", () => {
  const inputs = { ...ticks, terminated_TN: never, truncated_TN: never, lastValues_N: double([4]) };
  expect(() => controlGae(inputs)).toThrow(/rewards_TN has shape \[2, 3\], with .*lastValues_N \[1\]/);
});
