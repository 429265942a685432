/**
 * The pages of the shop: what they show and where their links lead. Pages are values; nothing here has state.
 *
 * In: a page. Out: its text parts, or its links by the label that `click[label]` names, in lower case.
 */
import { type Product, priceTag } from "./product.ts";

/** Where a customer is. */
export type Page = SearchPage | ResultsPage | ItemPage | DetailPage | DonePage;

/** The first page. */
interface SearchPage {
  readonly kind: "search";
}

/** Ten of the products that a search found. */
interface ResultsPage {
  readonly kind: "results";
  readonly found: readonly Product[];
  /** Counts from 1. */
  readonly number: number;
}

/** One product, and the results that it was reached from. */
export interface ItemPage {
  readonly kind: "item";
  readonly results: ResultsPage;
  readonly product: Product;
  /** The value chosen for each option so far. */
  readonly options: Readonly<Record<string, string>>;
}

/** More about the product of an item page. */
interface DetailPage {
  readonly kind: "detail";
  readonly item: ItemPage;
  readonly detail: Detail;
}

/** After the purchase of what the item page showed. */
interface DonePage {
  readonly kind: "done";
  readonly item: ItemPage;
}

type Detail = "Description" | "Features" | "Reviews";

const DETAILS: readonly Detail[] = ["Description", "Features", "Reviews"];
const RESULTS_PER_PAGE = 10;
const BACK = "Back to Search";
const PREVIOUS = "< Prev";
const NEXT = "Next >";
const BUY = "Buy Now";

/** What the page shows, in order. */
export function pageParts(page: Page, instruction: string): string[] {
  const task = ["Instruction:", instruction];
  switch (page.kind) {
    case "search":
      return ["WebShop", ...task, "Search"];
    case "results": {
      const turning = page.number > 1 ? [PREVIOUS, NEXT] : [NEXT];
      const heading = `Page ${page.number} (Total results: ${page.found.length})`;
      const items = shownProducts(page).flatMap((product) => [product.asin, product.title, priceTag(product)]);
      return [...task, BACK, heading, ...turning, ...items];
    }
    case "item": {
      const { product } = page;
      const options = Object.entries(product.options).flatMap(([name, values]) => [name, ...values]);
      const facts = [product.title, `Price: ${priceTag(product)}`, "Rating: N.A."];
      return [...task, BACK, PREVIOUS, ...options, ...facts, ...DETAILS, BUY];
    }
    case "detail":
      return [...task, BACK, PREVIOUS, ...detailParts(page)];
    case "done":
      return ["Thank you for shopping with us!"];
  }
}

/** Where each click leads, in the order of the page. */
export function pageLinks(page: Page): Map<string, Page> {
  switch (page.kind) {
    case "search":
    case "done":
      return new Map();
    case "results":
      return linksByLabel([
        [BACK, { kind: "search" }],
        ...(page.number > 1 ? [[PREVIOUS, { ...page, number: page.number - 1 }] as const] : []),
        [NEXT, { ...page, number: page.number + 1 }],
        ...shownProducts(page).map(
          (product) => [product.asin, { kind: "item", results: page, product, options: {} }] as const,
        ),
      ]);
    case "item":
      return linksByLabel([
        ...optionLinks(page),
        [BACK, { kind: "search" }],
        [PREVIOUS, page.results],
        ...DETAILS.map((detail) => [detail, { kind: "detail", item: page, detail }] as const),
        [BUY, { kind: "done", item: page }],
      ]);
    case "detail":
      return linksByLabel([
        [BACK, { kind: "search" }],
        [PREVIOUS, page.item],
      ]);
  }
}

function linksByLabel(links: readonly (readonly [label: string, target: Page])[]): Map<string, Page> {
  return new Map(links.map(([label, target]) => [label.toLowerCase(), target]));
}

/** Where two options share a value, a click on it chooses the later one. */
function optionLinks(page: ItemPage): (readonly [string, Page])[] {
  return Object.entries(page.product.options).flatMap(([name, values]) =>
    values.map((value) => [value, { ...page, options: { ...page.options, [name]: value } }] as const),
  );
}

/** The products on this page of the results. */
export function shownProducts({ found, number }: ResultsPage): readonly Product[] {
  return found.slice((number - 1) * RESULTS_PER_PAGE, number * RESULTS_PER_PAGE);
}

/** What is said about the product. The data has no reviews, so that page is empty. */
export function detailParts({ item: { product }, detail }: DetailPage): string[] {
  switch (detail) {
    case "Description":
      return product.description === "" ? [] : [product.description.trim()];
    case "Features":
      return product.bullets.map((bullet) => bullet.trim());
    case "Reviews":
      return [];
  }
}
