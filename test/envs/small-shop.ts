/** A few products made up for tests, where WebShop's data is not at hand. */
import type { Product } from "../../src/envs/webshop/product.ts";

const base = {
  description: "",
  bullets: [""],
  category: "fashion",
  attributes: [],
  options: {},
  request: null,
} as const;

export const runningShoes: Product = {
  ...base,
  asin: "B00SHOES01",
  title: "Fleet Running Shoes for Women",
  description: "A light shoe for long roads.",
  bullets: ["Rubber sole ", " Machine washable"],
  prices: [45.5],
  productCategory: "Clothing › Shoes › Athletic",
  query: "women's shoes",
  attributes: ["rubber sole", "light weight"],
  options: { size: ["6", "7"], color: ["red", "navy blue"] },
  request: { text: "Find me light weight women's shoes with rubber sole", attributes: ["light weight", "rubber sole"] },
};

export const trailShoes: Product = {
  ...base,
  asin: "B00SHOES02",
  title: "Summit Trail Shoes",
  bullets: ["Rubber soles grip wet rock"],
  prices: [80, 120],
  productCategory: "Clothing › Shoes › Hiking",
  query: "hiking shoes",
  attributes: ["water resistant"],
  options: { size: ["6"] },
};

export const teapot: Product = {
  ...base,
  asin: "B00TEAPOT1",
  title: "Porcelain Teapot",
  prices: [985],
  productCategory: "Home › Kitchen › Tea",
  query: "teapots",
  request: { text: "Find me dishwasher safe teapots", attributes: ["dishwasher safe"] },
};

export const smallShop: readonly Product[] = [runningShoes, trailShoes, teapot];
