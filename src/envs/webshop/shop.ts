/**
 * The shop that all episodes share: products, the search over them, and the goals.
 *
 * In: a folder with WebShop's product file and attribute file. Out: a read-only shop. Loading gives the event loop its turn
 * every few products, so that other work goes on.
 */
import { access, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { englishTerms } from "./english-terms.ts";
import { type Goal, priceOf, syntheticGoals } from "./goals.ts";
import { attributeRows, type Product, productRows, readProducts } from "./product.ts";
import { SearchIndex } from "./search-index.ts";

/** Read-only: any number of episodes may use it at once. */
export interface Shop {
  readonly goals: readonly Goal[];
  /** The best 50 products, best first. */
  readonly search: (words: string) => readonly Product[];
  readonly priceOf: (product: Product) => number;
}

const PRODUCT_FILES = ["products.json", "items_shuffle_1000.json", "items_shuffle.json"];
const ATTRIBUTE_FILES = ["attributes.json", "items_ins_v2_1000.json", "items_ins_v2.json"];
const MAX_FOUND = 50;
const PRODUCTS_PER_SLICE = 50;

/** @param seed decides prices within ranges, and price limits */
export async function loadShop(dataFolder: string, seed: number): Promise<Shop> {
  // One after the other: of two missing files, the first is named.
  const rows = await readData(dataFolder, PRODUCT_FILES, productRows);
  const attributes = await readData(dataFolder, ATTRIBUTE_FILES, attributeRows);
  return openShop(readProducts(rows, attributes), seed);
}

/** A shop with these products. */
export async function openShop(products: readonly Product[], seed: number): Promise<Shop> {
  const index = new SearchIndex();
  for (const [i, product] of products.entries()) {
    if (i % PRODUCTS_PER_SLICE === 0) await setImmediate();
    index.add(englishTerms(searchText(product)));
  }
  return {
    goals: syntheticGoals(products, seed),
    search: (words) => index.search(englishTerms(words), MAX_FOUND).map(({ document }) => products[document]!),
    priceOf: (product) => priceOf(product, seed),
  };
}

function searchText({ title, description, bullets, options }: Product): string {
  const optionTexts = Object.entries(options).map(([name, values]) => `${name}: ${values.join(", ")}`);
  return [title, description, bullets[0] ?? "", optionTexts.join(", and ")].join(" ").toLowerCase();
}

async function readData<Rows>(folder: string, names: readonly string[], schema: z.ZodType<Rows>): Promise<Rows> {
  const path = await firstExisting(names.map((name) => join(folder, name)));
  if (path === undefined) {
    throw new RerollError(
      "FILE_NOT_FOUND",
      `webshop.dataFolder ${folder} holds none of ${names.join(", ")}. Name the folder with WebShop's data files.`,
      { folder, names },
    );
  }
  const rows = schema.safeParse(JSON.parse(await readFile(path, "utf8")));
  if (rows.success) return rows.data;
  throw new RerollError(
    "DATA_INVALID",
    `${path} is not what WebShop's file of that name holds: ${z.prettifyError(rows.error).split("\n").slice(0, 4).join(" ")}`,
    { path },
  );
}

async function firstExisting(paths: readonly string[]): Promise<string | undefined> {
  const found = await Promise.all(
    paths.map((path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    ),
  );
  return paths[found.indexOf(true)];
}
