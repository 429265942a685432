/**
 * FrozenLake: walk over the ice to the goal without stepping into a hole.
 *
 * The map comes from the prompt's seed and can be solved within `maxTurns`; slipping comes from the episode's seed. Rewards are
 * Gymnasium's: 1 at the goal, otherwise 0. A reply that cannot be read costs `formatPenalty` and moves nobody.
 */
import { z } from "zod";
import { deriveSeed, Random } from "../../random/random.ts";
import { answerWords, optionalTagOptions, readChoice, unreadNotice, writeAnswer } from "../answer-format.ts";
import { episodeEnded } from "../episode-ended.ts";
import { layoutPart } from "../layout-part.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Observation, Opening, Reply, TextEnv } from "../text-env.ts";
import { distancesToGoal, drawLake, LAKE_ACTIONS, type LakeMap, neighbor } from "./lake-map.ts";
import { compactWords, lakeRules, lakeSymbols, writeLake, writeSurroundings } from "./lake-text.ts";
import { SLIPS, slipperyValues, valueOfAction } from "./slippery-values.ts";

const symbol = z.string().regex(/^\S+$/, "a symbol must not be empty or hold spaces");

/** What a run file can say about a lake. */
export const frozenLakeOptions = z.strictObject({
  size: z.int().min(2).max(32).default(4).describe("Number of rows and columns."),
  holeRate: z.number().min(0).max(0.6).default(0.2).describe("Probability that a cell is a hole."),
  placement: z
    .enum(["random", "corners"])
    .default("random")
    .describe("Where start and goal are: anywhere (random), or in opposite corners."),
  part: layoutPart.describe(
    "Part of the maps to draw from. A fifth of all layouts of holes and goal is reserved for validation, whatever the seed.",
  ),
  isSlippery: z
    .boolean()
    .default(false)
    .describe("Make the ice slippery: one move in three goes where it should, the others to either side of it."),
  maxTurns: z.int().positive().default(20).describe("Number of replies after which the episode is cut off."),
  formatPenalty: z.number().min(0).default(0.1).describe("Penalty for a reply that cannot be read."),
  prompt: z
    .enum(["full", "compact"])
    .default("full")
    .describe("Text of the prompt: rules and grid (full), or the symbols of the grid alone (compact)."),
  showsSurroundings: z
    .boolean()
    .default(false)
    .describe("Add a line with what each action leads to, in the order left, down, right, up."),
  instructions: z.string().min(1).exactOptional().describe("Rules to use instead of the built-in ones."),
  answerTags: optionalTagOptions,
  symbols: z
    .strictObject({
      player: symbol.describe("Symbol of the player on ice."),
      ice: symbol.describe("Symbol of ice."),
      hole: symbol.describe("Symbol of a hole."),
      goal: symbol.describe("Symbol of the goal."),
      playerInHole: symbol.describe("Symbol of the player in a hole."),
      playerOnGoal: symbol.describe("Symbol of the player on the goal."),
    })
    .refine((symbols) => new Set(Object.values(symbols)).size === 6, "symbols must differ from each other")
    .default(lakeSymbols)
    .describe("One word per kind of cell."),
});

/** The options with their defaults filled in. */
type FrozenLakeOptions = z.output<typeof frozenLakeOptions>;

/** The environment as the catalog has it. */
export const frozenLake: EnvDefinition<typeof frozenLakeOptions> = {
  type: "frozen-lake",
  options: frozenLakeOptions,
  build: (options) => ({
    ...(options.prompt === "compact" && {
      words: {
        words: compactWords(options.symbols, options.answerTags),
        endWords: answerWords(LAKE_ACTIONS, options.answerTags).endWords,
      },
    }),
    makePrompt: (seed) => seedPrompt("frozen-lake", seed),
    makeEnv: (prompt, seed) => {
      const map = drawLake(options, new Random(deriveSeed(prompt.seed, "frozen-lake")));
      return new FrozenLakeEnv(map, options, new Random(deriveSeed(seed, "slip")));
    },
  }),
};

/** One walk over one lake. */
export class FrozenLakeEnv implements TextEnv {
  readonly #map: LakeMap;
  readonly #options: FrozenLakeOptions;
  readonly #slips: Random;
  /** What the oracle knows, once it was asked. */
  #distances: Int32Array | undefined;
  #values: readonly Float64Array[] | undefined;
  #position: number;
  #numTurns = 0;
  #hasEnded = false;

  constructor(map: LakeMap, options: FrozenLakeOptions, slips: Random) {
    this.#map = map;
    this.#options = options;
    this.#slips = slips;
    this.#position = map.start;
  }

  start(): Opening {
    const { prompt, symbols, answerTags, instructions } = this.#options;
    const rules = instructions ?? (prompt === "full" ? lakeRules(symbols, answerTags, this.#options) : null);
    return {
      instructions: rules === null ? [] : [{ role: "system", content: rules }],
      observation: this.#observe(true),
    };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("frozen-lake");
    const { answerTags, formatPenalty, maxTurns } = this.#options;
    const action = readChoice(text, answerTags, LAKE_ACTIONS);
    const before = this.#position;
    if (action !== null) this.#move(action);
    this.#numTurns++;

    const isAtGoal = this.#position === this.#map.goal;
    const isTerminated = isAtGoal || this.#map.isHole[this.#position] === true;
    this.#hasEnded = isTerminated || this.#numTurns >= maxTurns;
    return {
      kind: isTerminated ? "terminated" : this.#hasEnded ? "truncated" : "continues",
      reward: action === null ? -formatPenalty : Number(isAtGoal),
      metrics: {
        valid_action: Number(action !== null),
        effective_action: Number(this.#position !== before),
        ...(this.#hasEnded ? { success: Number(isAtGoal) } : {}),
      },
      observation: this.#observe(action !== null),
    };
  }

  randomReply(random: Random): string {
    return writeAnswer(random.pick(LAKE_ACTIONS), this.#options.answerTags);
  }

  /** The first move of a shortest way; on slippery ice the one with the best chance in the turns that are left. */
  oracleReply(): string | null {
    if (this.#hasEnded) return null;
    const action = this.#options.isSlippery ? this.#safestAction() : this.#shortestAction();
    return writeAnswer(LAKE_ACTIONS[action]!, this.#options.answerTags);
  }

  render(): string {
    return writeLake(this.#map, this.#position, this.#options.symbols, "");
  }

  #move(action: number): void {
    const direction = this.#options.isSlippery ? (action + this.#slips.pick(SLIPS)) % 4 : action;
    this.#position = neighbor(this.#map.size, this.#position, direction);
  }

  #shortestAction(): number {
    this.#distances ??= distancesToGoal(this.#map);
    const distances = this.#distances;
    const nearer = distances[this.#position]! - 1;
    return LAKE_ACTIONS.findIndex(
      (_, action) => distances[neighbor(this.#map.size, this.#position, action)] === nearer,
    );
  }

  #safestAction(): number {
    const { maxTurns } = this.#options;
    this.#values ??= slipperyValues(this.#map, maxTurns - 1);
    const later = this.#values[maxTurns - 1 - this.#numTurns]!;
    const values = LAKE_ACTIONS.map((_, action) => valueOfAction(this.#map, later, this.#position, action));
    return values.indexOf(Math.max(...values));
  }

  #observe(wasRead: boolean): Observation {
    const { prompt, showsSurroundings, symbols, answerTags } = this.#options;
    const separator = prompt === "compact" ? " " : "";
    const grid = writeLake(this.#map, this.#position, symbols, separator);
    const surroundings = showsSurroundings
      ? `\n${writeSurroundings(this.#map, this.#position, symbols, separator)}`
      : "";
    const notice = wasRead || prompt === "compact" ? "" : unreadNotice(answerTags);
    return { messages: [{ role: "user", content: notice + grid + surroundings }], stateKey: grid };
  }
}
