import { expect, test } from "vitest";
import { runningShoes, smallShop, teapot, trailShoes } from "../../../test/envs/small-shop.ts";
import { priceOf, syntheticGoals } from "./goals.ts";

test("every combination of options of a product with a request is a goal", () => {
  const goals = syntheticGoals(smallShop, 1);
  expect(goals).toHaveLength(5);
  const shoes = goals.filter(({ product }) => product === runningShoes).map(({ options }) => options);
  expect(new Set(shoes.map((options) => JSON.stringify(options)))).toEqual(
    new Set([
      '{"color":"red","size":"6"}',
      '{"color":"red","size":"7"}',
      '{"color":"navy blue","size":"6"}',
      '{"color":"navy blue","size":"7"}',
    ]),
  );
});

test("the instruction names request, options in order of their names, and the price limit", () => {
  const goals = syntheticGoals([runningShoes], 1);
  const goal = goals.find(({ options }) => options.size === "7" && options.color === "navy blue")!;
  expect(goal.instruction).toBe(
    "Find me light weight women's shoes with rubber sole with color: navy blue, and size: 7, " +
      `and price lower than ${goal.priceLimit}.00 dollars`,
  );
});

test("price limits are the higher of two of the next four multiples of 10", () => {
  const limits = Array.from({ length: 60 }, (_, seed) => syntheticGoals([runningShoes], seed)[0]!.priceLimit);
  expect(new Set(limits)).toEqual(new Set([60, 70, 80]));
});

test("a product too dear for two limits has none, and its goal names no price", () => {
  const [goal] = syntheticGoals([teapot], 1);
  expect(goal).toMatchObject({ priceLimit: Number.POSITIVE_INFINITY, instruction: "Find me dishwasher safe teapots" });
});

test("a price is fixed, or drawn from the range by the seed", () => {
  expect(priceOf(runningShoes, 3)).toBe(45.5);
  const price = priceOf(trailShoes, 3);
  expect(price).toBeGreaterThanOrEqual(80);
  expect(price).toBeLessThan(120);
  expect(priceOf(trailShoes, 3)).toBe(price);
  expect(priceOf(trailShoes, 4)).not.toBe(price);
});
