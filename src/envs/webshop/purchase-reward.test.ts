import { expect, test } from "vitest";
import { runningShoes, teapot, trailShoes } from "../../../test/envs/small-shop.ts";
import type { Goal } from "./goals.ts";
import { purchaseReward, titleScore, typeFactorOf } from "./purchase-reward.ts";

const goal: Goal = {
  product: runningShoes,
  instruction: "",
  attributes: ["light weight", "rubber sole"],
  options: { color: "navy blue", size: "7" },
  priceLimit: 50,
};

test("the wanted product with the wanted options within the limit is worth 1", () => {
  const purchase = { product: runningShoes, options: { color: "navy blue", size: "7" }, price: 45.5 };
  expect(purchaseReward(purchase, goal).reward).toBe(1);
});

test("each of attributes, options and price counts one part of five", () => {
  const purchase = { product: runningShoes, options: { color: "red", size: "7" }, price: 60 };
  expect(purchaseReward(purchase, goal)).toEqual({
    reward: 3 / 5,
    typeFactor: 1,
    matchedAttributes: 2,
    matchedOptions: 1,
    isPriceWithinLimit: false,
  });
});

test("an attribute counts when a bullet contains it, and not when the product lacks it", () => {
  // "rubber sole" is inside "Rubber soles grip wet rock"; nothing of "light weight" is there. Size 7 is not chosen.
  const purchase = { product: trailShoes, options: { size: "6" }, price: 45 };
  expect(purchaseReward(purchase, goal)).toMatchObject({ matchedAttributes: 1, matchedOptions: 0, reward: 2 / 5 });
});

test("a shade counts as its color", () => {
  const purchase = { product: runningShoes, options: { color: "light blue" }, price: 45.5 };
  expect(purchaseReward(purchase, goal).matchedOptions).toBe(1);
});

test("a color hidden in another word hides the value by WebShop's rule, and not when values are compared alone", () => {
  // "rectangular" contains "tan".
  const wanted: Goal = { ...goal, options: { shape: "rectangular" } };
  const purchase = { product: runningShoes, options: { shape: "rectangular" }, price: 45.5 };
  expect(purchaseReward(purchase, wanted).matchedOptions).toBe(0);
  expect(purchaseReward(purchase, wanted, "value").matchedOptions).toBe(1);
});

test("the kind of product counts by query, category and title", () => {
  expect(typeFactorOf(runningShoes, runningShoes)).toBe(1);
  // Titles share "shoes" of four nouns: 0.25.
  expect(typeFactorOf(trailShoes, { ...runningShoes, productCategory: "Toys" })).toBe(1);
  expect(typeFactorOf(teapot, runningShoes)).toBe(0);
});

test("a title with a few common words is worth half, or a tenth, where query and category differ", () => {
  const wanted = { ...teapot, title: "One Two Alpha Beta Gamma Delta Epsilon Zeta" };
  const bought = { ...trailShoes, title: "Zeta Shoes" };
  expect(titleScore(bought.title, wanted.title)).toBeCloseTo(1 / 6, 12);
  expect(typeFactorOf(bought, wanted)).toBe(0.5);
  expect(typeFactorOf({ ...bought, query: wanted.query }, wanted)).toBe(1);
  expect(typeFactorOf({ ...bought, productCategory: "Tea › Home" }, wanted)).toBe(1);
  const long = { ...wanted, title: "Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda" };
  expect(typeFactorOf({ ...bought, query: wanted.query }, long)).toBe(0.1);
});

test("titles score as with a part-of-speech model where WebShop's own tests say how", () => {
  const cord =
    "BRST AC Power Cord Outlet Socket Cable Plug Lead for Panasonic SC-HT830V DVD/VCR Combo Home Theater System";
  const soundbar = "Saireed UL Listed 2 Prong Power Cord for JBL Bar 3.1 Bar 2.1 Channel 4K Ultra HD Soundbar";
  expect(Math.abs(titleScore(cord, soundbar) - 0.15)).toBeLessThan(0.01);
  expect(titleScore(cord, `${soundbar} Home Theater System Subwoofer`)).toBeGreaterThan(0.2);
  const tweezers =
    "Minkissy 2pcs Stainless Steel Eyebrow Tweezers Blackhead Acne Remover Portable Makeup Tweezers (Silver)";
  expect(titleScore(tweezers, "Rusticware 921ORB Kitchen and Bath Cabinet Knob")).toBe(0);
  expect(titleScore("Sun Hat", "2 for 1")).toBe(0.2);
});
