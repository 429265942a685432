import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { type GigpoInputs, gigpo } from "./gigpo.ts";

// Two trajectories of one group. The first: rewards 0, 2 from states s, t. The second: reward 4 from state s.
const inputs: GigpoInputs = {
  rewards_B: tensor([0, 2, 4], { dtype: "float64" }),
  groupOf: [0, 0, 0],
  trajectoryOf: [0, 0, 1],
  turnOf: [0, 1, 0],
  stateOf: ["s", "t", "s"],
};

test("the episode is compared with the group, and the step with steps from the same state", () => {
  const { advantages_B, episode_B, step_B } = gigpo(inputs, { gamma: 0.5 });
  // Totals 2, 4 around 3. Step returns 0.5 * 2 = 1 and 4 from s, around 2.5; t was met once.
  expect(episode_B.toArray()).toEqual([-1, -1, 1]);
  expect(step_B.toArray()).toEqual([-1.5, 0, 1.5]);
  expect(advantages_B.toArray()).toEqual([-2.5, -1, 2.5]);
});

test("weights and deviations scale the two parts", () => {
  const { episode_B, step_B } = gigpo(inputs, {
    gamma: 0.5,
    episodeWeight: 2,
    stepWeight: 0.5,
    scale: "group-std",
    epsilon: 0,
  });
  const close = (value: number) => expect.closeTo(value, 12);
  // Two values around their mean are sqrt 1/2 deviations away from it.
  expect(episode_B.toArray()).toEqual([-2, -2, 2].map((value) => close(value * Math.SQRT1_2)));
  expect(step_B.toArray()).toEqual([-0.5, 0, 0.5].map((value) => close(value * Math.SQRT1_2)));
});

test("the episode mean can be taken over steps, where long trajectories count more", () => {
  // Totals per step 2, 2, 4 around 8/3.
  const { episode_B } = gigpo(inputs, { episodeMean: "steps" });
  expect(episode_B.toArray()).toEqual([-2 / 3, -2 / 3, 4 / 3].map((value) => expect.closeTo(value, 12)));
});

test("rows may lie in any order", () => {
  const turned: GigpoInputs = {
    rewards_B: tensor([4, 2, 0], { dtype: "float64" }),
    groupOf: [0, 0, 0],
    trajectoryOf: [1, 0, 0],
    turnOf: [0, 1, 0],
    stateOf: ["s", "t", "s"],
  };
  expect(gigpo(turned, { gamma: 0.5 }).advantages_B.toArray()).toEqual([2.5, -1, -2.5]);
});

test("equal states of different groups are not compared", () => {
  const { step_B } = gigpo({ ...inputs, groupOf: [0, 0, 1] });
  expect(step_B.toArray()).toEqual([0, 0, 0]);
});

test("two rows cannot be the same turn", () => {
  expect(() => gigpo({ ...inputs, turnOf: [1, 1, 0] })).toThrow(
    /turnOf\[1\] is 1, which another row of the same trajectory/,
  );
});

test("every row needs a state", () => {
  expect(() => gigpo({ ...inputs, stateOf: ["s"] })).toThrow(/stateOf has 1 entries for 3 rows/);
});
