/**
 * What a purchase is worth, from 0 to 1 (Yao et al., "WebShop", 2022).
 *
 * reward = r_type (matched attributes + matched options + [price within the limit]) / (attributes + options + 1).
 * r_type is 1; 0.5 where neither query nor category nor title agree; 0.1 where the title score is below 0.1; 0 where it is 0.
 */
import type { Goal } from "./goals.ts";
import { isColor, normalizeColor } from "./normalize-color.ts";
import type { Product } from "./product.ts";
import { titleNouns } from "./title-nouns.ts";
import { tokenSetRatio } from "./token-set-ratio.ts";

/** What is bought: the product, the value chosen for each option, and what it costs. */
interface Purchase {
  readonly product: Product;
  readonly options: Readonly<Record<string, string>>;
  readonly price: number;
}

/**
 * What a chosen value is compared with. `name-and-value`, as WebShop does: with the wanted option's name and value together,
 * where the chosen one counts as its first color name, the wanted one only where it is a color name and nothing else.
 * `value`: with the wanted value, both as their first color name, so that buying exactly what is wanted always counts.
 */
type OptionMatch = "name-and-value" | "value";

/** The reward and what it is made of. */
interface PurchaseReward {
  readonly reward: number;
  readonly typeFactor: number;
  readonly matchedAttributes: number;
  readonly matchedOptions: number;
  readonly isPriceWithinLimit: boolean;
}

const MIN_RATIO = 85;
const MIN_SHARED_LEVELS = 2;
/** The title score where the wanted title names nothing. */
const SCORE_WITHOUT_NOUNS = 0.2;

/** What a purchase is worth to the customer who has this goal. */
export function purchaseReward(
  { product, options, price }: Purchase,
  goal: Goal,
  optionMatch: OptionMatch = "name-and-value",
): PurchaseReward {
  const typeFactor = typeFactorOf(product, goal.product);
  const matchedAttributes = goal.attributes.filter((attribute) => hasAttribute(product, attribute)).length;
  const matchedOptions = countMatchedOptions(Object.values(options), goal.options, optionMatch);
  const isPriceWithinLimit = price <= goal.priceLimit;
  const matched = matchedAttributes + matchedOptions + (isPriceWithinLimit ? 1 : 0);
  const wanted = goal.attributes.length + Object.keys(goal.options).length + 1;
  return {
    reward: typeFactor * (matched / wanted),
    typeFactor,
    matchedAttributes,
    matchedOptions,
    isPriceWithinLimit,
  };
}

/** Whether the bought product is the kind of thing that was wanted. */
export function typeFactorOf(bought: Product, wanted: Product): number {
  const score = titleScore(bought.title, wanted.title);
  if (score === 0) return 0;
  if (score < 0.1) return 0.1;
  const levels = new Set(categoryLevels(bought));
  const numSharedLevels = new Set(categoryLevels(wanted).filter((level) => levels.has(level))).size;
  return bought.query === wanted.query || numSharedLevels >= MIN_SHARED_LEVELS || score > 0.2 ? 1 : 0.5;
}

/** The share of the wanted title's nouns that the bought one has. */
export function titleScore(bought: string, wanted: string): number {
  const wantedNouns = titleNouns(wanted);
  if (wantedNouns.length === 0) return SCORE_WITHOUT_NOUNS;
  const boughtNouns = new Set(titleNouns(bought));
  return new Set(wantedNouns.filter((noun) => boughtNouns.has(noun))).size / wantedNouns.length;
}

function categoryLevels({ productCategory }: Product): string[] {
  return productCategory.split("›").map((level) => level.trim());
}

function hasAttribute({ attributes, title, bullets, description }: Product, wanted: string): boolean {
  return (
    attributes.some((attribute) => tokenSetRatio(attribute, wanted) > MIN_RATIO) ||
    [title, bullets.join(" "), description].some((text) => text.toLowerCase().includes(wanted))
  );
}

function countMatchedOptions(chosen: readonly string[], wanted: Goal["options"], match: OptionMatch): number {
  const chosenTexts = chosen.map(normalizeColor);
  return Object.entries(wanted).filter(([name, value]) => {
    const pair = isColor(value) ? value : `${name} ${value}`;
    const wantedText = match === "value" ? normalizeColor(value) : pair;
    return chosenTexts.some((text) => tokenSetRatio(text, wantedText) > MIN_RATIO);
  }).length;
}
