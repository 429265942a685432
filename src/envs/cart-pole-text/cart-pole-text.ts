/**
 * CartPole in words: each turn tells position, velocity, angle and spin as whole numbers, and the reply pushes left or right.
 *
 * The equations and the start are those of the control task `cart-pole`, the start from the prompt's seed; there is no other
 * chance. Reward 1 for every push, as in Gymnasium. A reply that cannot be read lets no time pass and costs `formatPenalty`.
 */
import { z } from "zod";
import { deriveSeed, Random } from "../../random/random.ts";
import {
  answerWords,
  describeAnswer,
  optionalTagOptions,
  readChoice,
  unreadNotice,
  writeAnswer,
} from "../answer-format.ts";
import { episodeEnded } from "../episode-ended.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Observation, Opening, Reply, TextEnv } from "../text-env.ts";
import { advanceCartPole, CART_POLE_STATE_SIZE, hasCartPoleFallen, startCartPole } from "./cart-pole-motion.ts";

const ACTIONS = ["Left", "Right"] as const;
/** What is told, and the value that has the highest level: the limits of position and angle, twice what a good player needs of the others. */
const QUANTITIES = [
  { name: "position", largest: 2.4 },
  { name: "velocity", largest: 2 },
  { name: "angle", largest: 0.21 },
  { name: "spin", largest: 2 },
] as const;
/** Right where the weighted sum of the state is positive. It holds the pole for thousands of turns. */
const ORACLE_WEIGHTS = [0.05, 0.15, 1, 0.3] as const;

/** What a run file can say about the pole. */
export const cartPoleTextOptions = z.strictObject({
  numLevels: z
    .int()
    .positive()
    .max(100)
    .default(5)
    .describe("Number of levels on either side of 0: quantities are whole numbers from -numLevels to numLevels."),
  maxTurns: z
    .int()
    .positive()
    .default(60)
    .describe("Number of replies after which the episode is cut off, which counts as a success."),
  formatPenalty: z.number().min(0).default(0.1).describe("Penalty for a reply that cannot be read."),
  prompt: z
    .enum(["full", "compact"])
    .default("full")
    .describe("Text of the prompt: rules and named numbers (full), or the four numbers alone (compact)."),
  instructions: z.string().min(1).exactOptional().describe("Rules to use instead of the built-in ones."),
  answerTags: optionalTagOptions,
});

/** The options with their defaults filled in. */
type CartPoleTextOptions = z.output<typeof cartPoleTextOptions>;

/** The environment as the catalog has it. */
export const cartPoleText: EnvDefinition<typeof cartPoleTextOptions> = {
  type: "cart-pole-text",
  options: cartPoleTextOptions,
  build: (options) => {
    const { words, endWords } = answerWords(ACTIONS, options.answerTags);
    return {
      ...(options.prompt === "compact" && { words: { words: [...levelWords(options.numLevels), ...words], endWords } }),
      makePrompt: (seed) => seedPrompt("cart-pole-text", seed),
      makeEnv: ({ seed }) => {
        const state = new Float64Array(CART_POLE_STATE_SIZE);
        startCartPole(state, new Random(deriveSeed(seed, "cart-pole-text")));
        return new CartPoleTextEnv(state, options);
      },
    };
  },
};

/** One pole, from its start until it falls. */
export class CartPoleTextEnv implements TextEnv {
  readonly #options: CartPoleTextOptions;
  readonly #state: Float64Array;
  #numTurns = 0;
  #numPushes = 0;
  #hasEnded = false;

  /** `state` is position, velocity, angle and spin, in meters, radians and seconds. */
  constructor(state: Float64Array, options: CartPoleTextOptions) {
    this.#state = state.slice();
    this.#options = options;
  }

  start(): Opening {
    const { prompt, instructions } = this.#options;
    const rules = instructions ?? (prompt === "full" ? poleRules(this.#options) : null);
    return {
      instructions: rules === null ? [] : [{ role: "system", content: rules }],
      observation: this.#observe(true),
    };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("cart-pole-text");
    const { answerTags, formatPenalty, maxTurns } = this.#options;
    const action = readChoice(text, answerTags, ACTIONS);
    const reward = action === null ? -formatPenalty : advanceCartPole(this.#state, action);
    this.#numTurns++;
    this.#numPushes += Number(action !== null);

    const hasFallen = hasCartPoleFallen(this.#state);
    this.#hasEnded = hasFallen || this.#numTurns >= maxTurns;
    return {
      kind: hasFallen ? "terminated" : this.#hasEnded ? "truncated" : "continues",
      reward,
      metrics: {
        valid_action: Number(action !== null),
        ...(this.#hasEnded ? { success: Number(!hasFallen && this.#numPushes === maxTurns) } : {}),
      },
      observation: this.#observe(action !== null),
    };
  }

  randomReply(random: Random): string {
    return writeAnswer(random.pick(ACTIONS), this.#options.answerTags);
  }

  oracleReply(): string {
    const lean = ORACLE_WEIGHTS.reduce((sum, weight, i) => sum + weight * this.#state[i]!, 0);
    return writeAnswer(ACTIONS[lean > 0 ? 1 : 0], this.#options.answerTags);
  }

  /** What is told: states that read alike are one state to whoever plays. */
  render(): string {
    const levels = this.#levels();
    return QUANTITIES.map(({ name }, i) => `${name} ${levels[i]}`).join(", ");
  }

  #levels(): number[] {
    return QUANTITIES.map(({ largest }, i) => levelOf(this.#state[i]! / largest, this.#options.numLevels));
  }

  #observe(wasRead: boolean): Observation {
    const { prompt, answerTags } = this.#options;
    const notice = wasRead ? "" : unreadNotice(answerTags);
    const content = prompt === "compact" ? this.#levels().join(" ") : notice + this.render();
    return { messages: [{ role: "user", content }], stateKey: this.render() };
  }
}

function levelOf(share: number, numLevels: number): number {
  // Adding 0 turns a negative zero into zero.
  return Math.round(Math.min(Math.max(share, -1), 1) * numLevels) + 0;
}

function levelWords(numLevels: number): string[] {
  return Array.from({ length: 2 * numLevels + 1 }, (_, i) => String(i - numLevels));
}

function poleRules({ numLevels, maxTurns, answerTags }: CartPoleTextOptions): string {
  return [
    `A pole stands on a cart. Keep it up for ${maxTurns} turns, and the cart on its track.`,
    `You are told the cart's position and velocity and the pole's angle and spin, each from -${numLevels} (far left) to ${numLevels} (far right).`,
    "The pole has fallen when its angle, and the cart is off the track when its position, goes beyond that.",
    `Each turn you push the cart: ${ACTIONS.join(" or ")}. Write it ${describeAnswer(ACTIONS[1], answerTags)}`,
  ].join("\n");
}
