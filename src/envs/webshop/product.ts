/**
 * Products of the shop, read from WebShop's data files.
 *
 * In: the parsed JSON of the product file and of the attribute file, either as WebShop publishes them or after its own
 * processing (price list and options already made). Out: products in file order, without doubles.
 */
import { z } from "zod";

/** One product with all that pages, search and rewards need. */
export interface Product {
  readonly asin: string;
  readonly title: string;
  readonly description: string;
  readonly bullets: readonly string[];
  /** One price, or the two ends of a range. */
  readonly prices: readonly number[];
  /** Levels from wide to narrow, separated by the sign `›`. */
  readonly productCategory: string;
  readonly category: string;
  /** The search that led to the product when the data was gathered. */
  readonly query: string;
  readonly attributes: readonly string[];
  /** The values of each option, by its name. All in lower case. */
  readonly options: Readonly<Record<string, readonly string[]>>;
  /** What a customer who wants this product asks for; null for products that nobody asks for. */
  readonly request: { readonly text: string; readonly attributes: readonly string[] } | null;
}

const productRow = z.object({
  asin: z.string(),
  name: z.string(),
  full_description: z.string().nullish(),
  small_description: z.union([z.array(z.string()), z.string()]).nullish(),
  pricing: z.union([z.array(z.number()), z.string()]).nullish(),
  product_category: z.string(),
  category: z.string(),
  query: z.string(),
  options: z.record(z.string(), z.array(z.string())).optional(),
  customization_options: z
    .union([z.record(z.string(), z.array(z.object({ value: z.string() })).nullable()), z.string()])
    .nullish(),
});

/** One row of the product file. */
type ProductRow = z.output<typeof productRow>;

/** The product file. */
export const productRows = z.array(productRow);

/** The attribute file: by product, its attributes and what is asked for. */
export const attributeRows = z.record(
  z.string(),
  z.object({
    attributes: z.array(z.string()).optional(),
    instruction: z.string().nullish(),
    instruction_attributes: z.array(z.string()).nullish(),
  }),
);

/** The attribute file after checking. */
type AttributeRows = z.output<typeof attributeRows>;

const DEFAULT_PRICE = 100;
const ASIN_LENGTH = 10;

/** Joins rows and attributes. Rows with an unusable id, and all but the first row of an id, are left out. */
export function readProducts(rows: readonly ProductRow[], attributes: AttributeRows): Product[] {
  const products = new Map<string, Product>();
  for (const row of rows) {
    if (row.asin === "nan" || row.asin.length > ASIN_LENGTH || products.has(row.asin)) continue;
    products.set(row.asin, readProduct(row, attributes[row.asin]));
  }
  return [...products.values()];
}

/** The price as pages show it, such as `$19.99 to $27.99`. */
export function priceTag({ prices }: Product): string {
  return prices.map((price) => `$${Number.isInteger(price) ? price.toFixed(1) : price}`).join(" to ");
}

function readProduct(row: ProductRow, known: AttributeRows[string] | undefined): Product {
  const bullets = row.small_description ?? [];
  return {
    asin: row.asin,
    title: row.name,
    description: row.full_description ?? "",
    bullets: typeof bullets === "string" ? [bullets] : bullets,
    prices: readPrices(row.pricing),
    productCategory: row.product_category,
    category: row.category,
    query: row.query.toLowerCase().trim(),
    attributes: known?.attributes ?? [],
    options: row.options ?? readOptions(row.customization_options),
    request:
      known?.instruction == null ? null : { text: known.instruction, attributes: known.instruction_attributes ?? [] },
  };
}

function readPrices(pricing: ProductRow["pricing"]): readonly number[] {
  const prices =
    typeof pricing === "string"
      ? pricing
          .split("$")
          .slice(1)
          .map((text) => Number(text.replace(/[^\d.]/g, "")))
      : (pricing ?? []);
  return prices.length === 0 ? [DEFAULT_PRICE] : prices.slice(0, 2);
}

function readOptions(given: ProductRow["customization_options"]): Product["options"] {
  if (given == null || typeof given === "string") return {};
  return Object.fromEntries(
    Object.entries(given).flatMap(([name, values]) =>
      values === null
        ? []
        : [[name.toLowerCase(), values.map(({ value }) => value.trim().replaceAll("/", " | ").toLowerCase())]],
    ),
  );
}
