import { expect, test } from "vitest";
import { tensor } from "../../torch/create.ts";
import { gpg } from "./gpg.ts";

const rewards = tensor([1, 0, 1, 1], { dtype: "float64" });
const groupOf = [0, 0, 1, 1];

test("centered rewards grow by the share of samples that carry no signal", () => {
  // Two of four samples lie in a group whose rewards differ: alpha = 2.
  expect(gpg(rewards, groupOf).toArray()).toEqual([1, -1, 0, 0]);
});

test("verl counts rewards that are not 0", () => {
  // Three of four: alpha = 4/3.
  const advantages = gpg(rewards, groupOf, { countBy: "rewards" }).toArray();
  expect(advantages).toEqual([2 / 3, -2 / 3, 0, 0].map((value) => expect.closeTo(value, 12)));
});

test("a batch without signal gives 0", () => {
  expect(gpg(tensor([0, 0, 0, 0]), groupOf, { countBy: "rewards" }).toArray()).toEqual([0, 0, 0, 0]);
});

test("the normalizer divides", () => {
  expect(gpg(rewards, groupOf, { normalizer: 2 }).toArray()).toEqual([0.5, -0.5, 0, 0]);
});
