/**
 * WebShop: find and buy what a customer asks for (Yao et al., "WebShop", 2022).
 *
 * The prompt's seed names the goal: its remainder by the number of goals of the split. Only buying ends the task; the reward
 * comes then, and is 1 when product, options, attributes and price all fit. A reply that names no action of the page
 * changes nothing. The shop is loaded once, at the first episode, and shared by all.
 */
import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";
import { deriveSeed, type Random } from "../../random/random.ts";
import { type AnswerTags, describeAnswer, optionalTagOptions, readAnswer, writeAnswer } from "../answer-format.ts";
import { episodeEnded } from "../episode-ended.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Observation, Opening, Reply, TextEnv } from "../text-env.ts";
import { type Goal, PRICE_CLAUSE } from "./goals.ts";
import { type ItemPage, type Page, pageLinks, pageParts } from "./pages.ts";
import { purchaseReward } from "./purchase-reward.ts";
import { loadShop, type Shop } from "./shop.ts";
import { shortPage } from "./short-page.ts";

/** The options of `{ type: "webshop" }`. */
export const webshopOptions = z.strictObject({
  dataFolder: z.string().min(1).describe("Folder with WebShop's product file and attribute file."),
  split: z
    .enum(["train", "validation", "test", "all"])
    .default("train")
    .describe("Part of the goals to draw from. Validation is the first 500, test the next 500, and train the rest."),
  maxTurns: z.int().positive().default(50).describe("Number of replies after which the episode is cut off."),
  formatPenalty: z.number().min(0).default(0).describe("Penalty for a reply that names no action of the page."),
  prompt: z
    .enum(["full", "compact", "short"])
    .default("full")
    .describe(
      "Text of the prompt: rules and page (full), the page alone (compact), or the page with cut titles and every action written once (short).",
    ),
  instructions: z.string().min(1).exactOptional().describe("Rules to use instead of the built-in ones."),
  answerTags: optionalTagOptions,
  reward: z
    .enum(["graded", "success"])
    .default("graded")
    .describe(
      "Reward of a purchase: WebShop's own from 0 to 1 (graded), or 1 where that is 1 and 0 where it is less (success).",
    ),
  optionMatch: z
    .enum(["name-and-value", "value"])
    .default("name-and-value")
    .describe(
      "How options are compared: by name and value, as WebShop does, or by value alone, so that the wanted ones always match.",
    ),
  oracleSearch: z
    .enum(["title", "request", "instruction"])
    .default("title")
    .describe(
      "Words that the oracle searches for: the title of the wanted product, or what the customer says, without options and price (request) or with the options too (instruction).",
    ),
  priceSeed: z
    .int()
    .min(0)
    .default(0)
    .describe("Seed that decides prices within their ranges, and the price limits of goals."),
});

/** The options with their defaults filled in. */
type WebshopOptions = z.output<typeof webshopOptions>;

/** The options that matter to one episode. */
type EpisodeOptions = Omit<WebshopOptions, "dataFolder" | "split" | "priceSeed">;

/** WebShop as run files name it. */
export const webshop: EnvDefinition<typeof webshopOptions> = {
  type: "webshop",
  options: webshopOptions,
  build: (options) => {
    let shop: Promise<Shop> | undefined;
    return {
      makePrompt: (seed) => seedPrompt("webshop", seed),
      makeEnv: async (prompt) => {
        shop ??= loadShop(options.dataFolder, deriveSeed(options.priceSeed, "webshop"));
        const loaded = await shop;
        return new WebshopEnv(loaded, goalOfSeed(loaded.goals, options.split, prompt.seed), options);
      },
    };
  },
};

const NUM_HELD_OUT = 500;
/** The first goal of each split, and the first one after it. */
const SPLITS = {
  validation: [0, NUM_HELD_OUT],
  test: [NUM_HELD_OUT, 2 * NUM_HELD_OUT],
  train: [2 * NUM_HELD_OUT, Number.POSITIVE_INFINITY],
  all: [0, Number.POSITIVE_INFINITY],
} as const;

/** Neighboring seeds give neighboring goals, so that seeds from 0 on go through a split in order. */
export function goalOfSeed(goals: readonly Goal[], split: WebshopOptions["split"], seed: number): Goal {
  const own = goals.slice(...SPLITS[split]);
  if (own.length > 0) return own[Math.abs(seed) % own.length]!;
  throw new RerollError(
    "DATA_EMPTY",
    `webshop.split "${split}" is empty: the data gives ${goals.length} goals, of which validation takes the first ${NUM_HELD_OUT} and test the next ${NUM_HELD_OUT}. Use more data, or split "all".`,
    { split, numGoals: goals.length },
  );
}

/** One customer and one purchase. */
export class WebshopEnv implements TextEnv {
  readonly #shop: Shop;
  readonly #goal: Goal;
  readonly #options: EpisodeOptions;
  #page: Page = { kind: "search" };
  #numTurns = 0;
  #hasEnded = false;

  constructor(shop: Shop, goal: Goal, options: EpisodeOptions) {
    this.#shop = shop;
    this.#goal = goal;
    this.#options = options;
  }

  start(): Opening {
    const { prompt, instructions, answerTags } = this.#options;
    const rules = instructions ?? (prompt === "full" ? shopRules(answerTags) : null);
    return {
      instructions: rules === null ? [] : [{ role: "system", content: rules }],
      observation: this.#observe(),
    };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("webshop");
    const next = this.#follow(readAnswer(text, this.#options.answerTags) ?? text.trim());
    this.#page = next ?? this.#page;
    this.#numTurns++;
    if (this.#page.kind === "done") return this.#buy(this.#page.item);
    this.#hasEnded = this.#numTurns >= this.#options.maxTurns;
    return {
      kind: this.#hasEnded ? "truncated" : "continues",
      reward: next === null ? 0 - this.#options.formatPenalty : 0,
      metrics: {
        valid_action: Number(next !== null),
        ...(this.#hasEnded ? { success: 0, score: 0, purchased: 0 } : {}),
      },
      observation: this.#observe(),
    };
  }

  randomReply(random: Random): string {
    if (this.#page.kind === "search") {
      const words = random.shuffled(this.#goal.instruction.split(" ")).slice(0, 4);
      return this.#reply(`search[${words.join(" ")}]`);
    }
    return this.#reply(`click[${random.pick([...pageLinks(this.#page).keys()])}]`);
  }

  /** Searches for the wanted product, turns pages until it is there, chooses the wanted options, buys. */
  oracleReply(): string | null {
    const action = this.#bestAction();
    return action === null ? null : this.#reply(action);
  }

  render(): string {
    return this.#pageText();
  }

  #reply(action: string): string {
    return writeAnswer(action, this.#options.answerTags);
  }

  /** Where an action leads; null where it is none of this page. A search works on every page. */
  #follow(action: string): Page | null {
    const [, verb, argument] = /^(search|click)\[(.+)\]$/s.exec(action) ?? [];
    if (verb === undefined || argument === undefined) return null;
    const label = argument.toLowerCase();
    if (verb === "search") return { kind: "results", found: this.#shop.search(label), number: 1 };
    return pageLinks(this.#page).get(label) ?? null;
  }

  #buy({ product, options }: ItemPage): EnvStep {
    this.#hasEnded = true;
    const purchase = { product, options, price: this.#shop.priceOf(product) };
    const { reward: score, typeFactor } = purchaseReward(purchase, this.#goal, this.#options.optionMatch);
    const success = Number(score === 1);
    return {
      kind: "terminated",
      reward: this.#options.reward === "success" ? success : score,
      metrics: { valid_action: 1, success, score, purchased: 1, type_factor: typeFactor },
      observation: this.#observe(),
    };
  }

  #bestAction(): string | null {
    const { product } = this.#goal;
    const page = this.#page;
    switch (page.kind) {
      case "search":
        return `search[${this.#oracleWords()}]`;
      case "results": {
        if (!page.found.includes(product)) return `search[${product.title.toLowerCase()}]`;
        const label = product.asin.toLowerCase();
        return pageLinks(page).has(label) ? `click[${label}]` : "click[next >]";
      }
      case "item": {
        if (page.product !== product) return "click[< prev]";
        const links = pageLinks(page);
        const missing = Object.entries(this.#goal.options).find(([name, value]) => {
          const target = links.get(value);
          return page.options[name] !== value && target?.kind === "item" && target.options[name] === value;
        });
        return missing === undefined ? "click[buy now]" : `click[${missing[1]}]`;
      }
      case "detail":
        return "click[< prev]";
      case "done":
        return null;
    }
  }

  #oracleWords(): string {
    const { product, instruction } = this.#goal;
    switch (this.#options.oracleSearch) {
      case "title":
        return product.title.toLowerCase();
      case "request":
        return product.request?.text ?? instruction;
      case "instruction":
        return instruction.replace(PRICE_CLAUSE, "");
    }
  }

  #observe(): Observation {
    const text = this.#pageText();
    if (this.#options.prompt === "short") return { messages: [{ role: "user", content: text }], stateKey: text };
    const labels = [...pageLinks(this.#page).keys()].map((label) => `click[${label}]`);
    const actions = this.#page.kind === "search" ? ["search[words]"] : labels;
    const content = actions.length === 0 ? text : `${text}\n\nAvailable actions: ${actions.join(", ")}`;
    return { messages: [{ role: "user", content }], stateKey: text };
  }

  /** The page, and the options chosen so far, without which it would not say where the customer is. */
  #pageText(): string {
    if (this.#options.prompt === "short") return shortPage(this.#page, this.#goal.instruction);
    const text = pageParts(this.#page, this.#goal.instruction).join(" [SEP] ");
    const chosen = this.#page.kind === "item" ? Object.entries(this.#page.options) : [];
    if (chosen.length === 0) return text;
    return `${text}\n\nChosen: ${chosen.map(([name, value]) => `${name}: ${value}`).join(", ")}`;
  }
}

function shopRules(tags: AnswerTags | null): string {
  return [
    "You shop on a website for a customer. Find the product that the instruction asks for, choose its options, and buy it.",
    "Each turn you see a page, its parts separated by [SEP], and the actions it offers:",
    "search[words] looks for products; click[label] follows a link, chooses an option, or buys with click[buy now].",
    "You are paid for how well the product, its options, its attributes and its price fit the instruction. You can buy once.",
    `Reply with one action ${describeAnswer("search[red running shoes]", tags)}`,
  ].join("\n");
}
