/**
 * What customers want: one goal for every combination of options of every product that has a request.
 *
 * In: products. Out: goals in the order of WebShop's own environment (its fixed shuffle). The price limit of a product, and
 * the price of one that is offered within a range, are drawn from the seed.
 */
import { deriveSeed, Random } from "../../random/random.ts";
import type { Product } from "./product.ts";
import { pythonShuffled } from "./python-shuffle.ts";

/** What one customer wants. */
export interface Goal {
  readonly product: Product;
  /** What the customer says. */
  readonly instruction: string;
  readonly attributes: readonly string[];
  readonly options: Readonly<Record<string, string>>;
  /** Infinity where no limit is named. */
  readonly priceLimit: number;
}

const GOAL_ORDER_SEED = 233;
const PRICE_STEP = 10;
const MAX_PRICE_LIMIT = 990;
const NUM_LIMITS = 4;

/** How an instruction ends that names a price limit. */
export const PRICE_CLAUSE = /, and price lower than [\d.]+ dollars$/;

/** The seed decides prices only: number and order of goals are always the same. */
export function syntheticGoals(products: readonly Product[], seed: number): Goal[] {
  return pythonShuffled(
    products.flatMap((product) => goalsOf(product, seed)),
    GOAL_ORDER_SEED,
  );
}

/** What a product costs at the counter. */
export function priceOf({ asin, prices }: Product, seed: number): number {
  const [low, high] = prices;
  return high === undefined ? low! : low! + (high - low!) * new Random(deriveSeed(seed, "price", asin)).uniform();
}

function goalsOf(product: Product, seed: number): Goal[] {
  const { request } = product;
  if (request === null) return [];
  const priceLimit = priceLimitOf(product, seed);
  const priceText = Number.isFinite(priceLimit) ? `, and price lower than ${priceLimit.toFixed(2)} dollars` : "";
  return optionChoices(product).map((options) => ({
    product,
    instruction: request.text + optionText(options) + priceText,
    attributes: request.attributes,
    options,
    priceLimit,
  }));
}

/** The higher of two limits drawn from the next four multiples of 10 above the price. */
function priceLimitOf(product: Product, seed: number): number {
  const price = priceOf(product, seed);
  const first = Math.floor(price / PRICE_STEP + 1) * PRICE_STEP;
  const limits = Array.from({ length: NUM_LIMITS }, (_, i) => first + i * PRICE_STEP).filter(
    (limit) => limit <= MAX_PRICE_LIMIT,
  );
  if (limits.length < 2) return Number.POSITIVE_INFINITY;
  const [one, other] = new Random(deriveSeed(seed, "price-limit", product.asin)).shuffled(limits);
  return Math.max(one!, other!);
}

/** Every way to choose one value of each option; names in order, the last one changing fastest. */
function optionChoices({ options }: Product): Readonly<Record<string, string>>[] {
  let choices: Readonly<Record<string, string>>[] = [{}];
  for (const name of Object.keys(options).sort()) {
    choices = choices.flatMap((choice) => options[name]!.map((value) => ({ ...choice, [name]: value })));
  }
  return choices;
}

function optionText(options: Goal["options"]): string {
  const parts = Object.entries(options).map(([name, value]) => `${name}: ${value}`);
  return parts.length === 0 ? "" : ` with ${parts.join(", and ")}`;
}
