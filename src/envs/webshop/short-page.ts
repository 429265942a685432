/**
 * Pages in few words, for small models: titles are cut, an action is written once, where it stands, and long lists of values end early.
 *
 * In: a page. Out: its text. All that a page offers can be clicked, whether the short text shows it or not.
 */
import { detailParts, type Page, pageLinks, shownProducts } from "./pages.ts";
import { type Product, priceTag } from "./product.ts";

const MAX_TITLE = 72;
const MAX_VALUES = 16;
const MAX_DETAIL = 800;

/** The page as a short text. On the page of a product, the last line says what is chosen. */
export function shortPage(page: Page, instruction: string): string {
  return [`Instruction: ${instruction}`, ...shortLines(page)].join("\n");
}

function shortLines(page: Page): string[] {
  switch (page.kind) {
    case "search":
      return ["search[words]"];
    case "results":
      return [
        `Page ${page.number} of results:`,
        ...shownProducts(page).map((product) => `click[${product.asin.toLowerCase()}] ${shortProduct(product)}`),
        clicksOf(page),
      ];
    case "item": {
      const chosen = Object.entries(page.options).map(([name, value]) => `${name}: ${value}`);
      return [
        shortProduct(page.product),
        ...Object.entries(page.product.options).map(([name, values]) => `${name}: ${shortValues(values)}`),
        clicksOf(page),
        `Chosen: ${chosen.length === 0 ? "nothing" : chosen.join(", ")}`,
      ];
    }
    case "detail":
      return [detailParts(page).join(" ").slice(0, MAX_DETAIL), clicksOf(page)];
    case "done":
      return [];
  }
}

function shortProduct(product: Product): string {
  const { title } = product;
  return `${title.length > MAX_TITLE ? `${title.slice(0, MAX_TITLE)}...` : title} ${priceTag(product)}`;
}

function shortValues(values: readonly string[]): string {
  const shown = values.slice(0, MAX_VALUES).map((value) => `click[${value}]`);
  const numHidden = values.length - shown.length;
  return [...shown, ...(numHidden > 0 ? [`and ${numHidden} more`] : [])].join(" ");
}

/** The clicks that are neither a product of the results nor a value of an option. */
function clicksOf(page: Page): string {
  const isListed = (target: Page) => target.kind === "item" && page.kind !== "detail";
  const labels = [...pageLinks(page)].filter(([, target]) => !isListed(target)).map(([label]) => label);
  return labels.map((label) => `click[${label}]`).join(" ");
}
