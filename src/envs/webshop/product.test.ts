import { expect, test } from "vitest";
import { priceTag, productRows, readProducts } from "./product.ts";

const row = {
  asin: "B000000001",
  name: "Sun Hat",
  full_description: null,
  small_description: "Wide brim",
  pricing: "$1,019.99$1,027.50",
  product_category: "Clothing › Hats",
  category: "fashion",
  query: " Hats ",
  customization_options: { Color: [{ value: " Red/White " }, { value: "Blue" }], Fit: null },
};

test("a row as WebShop publishes it gets prices as numbers and options in lower case", () => {
  const [product] = readProducts(productRows.parse([row]), {
    B000000001: { attributes: ["wide brim"], instruction: "Find me hats", instruction_attributes: ["wide brim"] },
  });
  expect(product).toEqual({
    asin: "B000000001",
    title: "Sun Hat",
    description: "",
    bullets: ["Wide brim"],
    prices: [1019.99, 1027.5],
    productCategory: "Clothing › Hats",
    category: "fashion",
    query: "hats",
    attributes: ["wide brim"],
    options: { color: ["red | white", "blue"] },
    request: { text: "Find me hats", attributes: ["wide brim"] },
  });
  expect(priceTag(product!)).toBe("$1019.99 to $1027.5");
});

test("rows without a price cost 100, and doubles and long ids are left out", () => {
  const rows = [{ ...row, pricing: null }, row, { ...row, asin: "B0000000012" }, { ...row, asin: "nan" }];
  const products = readProducts(productRows.parse(rows), {});
  expect(products).toHaveLength(1);
  expect(priceTag(products[0]!)).toBe("$100.0");
  expect(products[0]!.request).toBeNull();
});
