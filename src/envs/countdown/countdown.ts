/**
 * Countdown: write an expression of the given numbers that equals the target. One reply.
 *
 * The puzzle comes from the prompt's `truth` where it holds one (`{ numbers, target }`), else from its seed; a drawn puzzle can
 * always be solved. Reward 1 for a right expression, `formatCredit` for one that can be read but is wrong, else 0.
 */
import { z } from "zod";
import type { JsonValue, Prompt } from "../../flow/prompt.ts";
import { deriveSeed, Random } from "../../random/random.ts";
import { answerTagOptions, readAnswer, writeAnswer } from "../answer-format.ts";
import { evaluateArithmetic } from "../arithmetic/evaluate-arithmetic.ts";
import { episodeEnded } from "../episode-ended.ts";
import { seedPrompt } from "../seed-prompt.ts";
import type { EnvDefinition, EnvStep, Opening, Reply, TextEnv } from "../text-env.ts";
import { drawPuzzle, type Puzzle, solvePuzzle } from "./puzzle.ts";

/** The options of `{ type: "countdown" }`. */
export const countdownOptions = z.strictObject({
  numNumbers: z.int().min(2).max(6).default(4).describe("Number of numbers in a puzzle."),
  maxNumber: z.int().min(1).max(1000).default(99).describe("Largest number that may be drawn."),
  maxTarget: z.int().min(1).max(100_000).default(999).describe("Largest target that may be drawn."),
  mustUseAll: z
    .boolean()
    .default(false)
    .describe("Require that every number is used exactly once, instead of at most once."),
  formatCredit: z.number().min(0).max(1).default(0.1).describe("Reward for a readable expression that is wrong."),
  prompt: z
    .enum(["full", "compact"])
    .default("full")
    .describe("Text of the prompt: rules and puzzle (full), or the numbers and the target alone (compact)."),
  instructions: z.string().min(1).exactOptional().describe("Rules to use instead of the built-in ones."),
  answerTags: answerTagOptions,
});

/** The options with their defaults filled in. */
type CountdownOptions = z.output<typeof countdownOptions>;

/** Countdown as run files name it. */
export const countdown: EnvDefinition<typeof countdownOptions> = {
  type: "countdown",
  options: countdownOptions,
  build: (options) => ({
    makePrompt: (seed) => {
      const { numbers, target } = puzzleOfSeed(options, seed);
      return { ...seedPrompt("countdown", seed), truth: { numbers, target } };
    },
    makeEnv: (prompt) => new CountdownEnv(puzzleOf(prompt, options), options),
  }),
};

const puzzleTruth = z.object({ numbers: z.array(z.int().min(0)).min(1), target: z.int() });

function puzzleOf({ truth, seed }: Prompt, options: CountdownOptions): Puzzle {
  return isEmpty(truth) ? puzzleOfSeed(options, seed) : puzzleTruth.parse(truth);
}

function isEmpty(truth: JsonValue): boolean {
  return truth === null || (typeof truth === "object" && Object.keys(truth).length === 0);
}

function puzzleOfSeed(options: CountdownOptions, seed: number): Puzzle {
  return drawPuzzle(options, new Random(deriveSeed(seed, "countdown")));
}

/** One puzzle and one reply. */
export class CountdownEnv implements TextEnv {
  readonly #puzzle: Puzzle;
  readonly #options: CountdownOptions;
  #hasEnded = false;

  constructor(puzzle: Puzzle, options: CountdownOptions) {
    this.#puzzle = puzzle;
    this.#options = options;
  }

  start(): Opening {
    const { prompt, instructions } = this.#options;
    const { numbers, target } = this.#puzzle;
    const rules = instructions ?? (prompt === "full" ? countdownRules(this.#options) : null);
    const content =
      prompt === "full" ? `Numbers: ${numbers.join(", ")}\nTarget: ${target}` : `${numbers.join(" ")} = ${target}`;
    return {
      instructions: rules === null ? [] : [{ role: "system", content: rules }],
      observation: { messages: [{ role: "user", content }], stateKey: content },
    };
  }

  step({ text }: Reply): EnvStep {
    if (this.#hasEnded) throw episodeEnded("countdown");
    this.#hasEnded = true;
    const answer = readAnswer(text, this.#options.answerTags);
    const result = answer === null ? null : evaluateArithmetic(answer);
    if (result === null || result.kind === "error") {
      return { kind: "terminated", reward: 0, metrics: { valid_action: 0, allowed_numbers: 0, success: 0 } };
    }
    const { numerator, denominator } = result.value;
    const isAllowed = this.#mayUse(result.numbers);
    const isRight = isAllowed && denominator === 1n && numerator === BigInt(this.#puzzle.target);
    return {
      kind: "terminated",
      reward: isRight ? 1 : this.#options.formatCredit,
      metrics: { valid_action: 1, allowed_numbers: Number(isAllowed), success: Number(isRight) },
    };
  }

  /** Joins all numbers by signs drawn at random: readable, and seldom right. */
  randomReply(random: Random): string {
    const [first, ...rest] = random.shuffled(this.#puzzle.numbers);
    const expression = rest.reduce(
      (text, number) => `${text} ${random.pick(["+", "-", "*"])} ${number}`,
      String(first),
    );
    return writeAnswer(expression, this.#options.answerTags);
  }

  oracleReply(): string | null {
    const solution = this.#hasEnded ? null : solvePuzzle(this.#puzzle, this.#options.mustUseAll);
    return solution === null ? null : writeAnswer(solution, this.#options.answerTags);
  }

  /** Whether each written number is given, and none is used too often or, where all must be used, too seldom. */
  #mayUse(written: readonly string[]): boolean {
    const left = [...this.#puzzle.numbers];
    for (const number of written) {
      const index = left.indexOf(Number(number));
      if (index === -1) return false;
      left.splice(index, 1);
    }
    return !this.#options.mustUseAll || left.length === 0;
  }
}

function countdownRules({ mustUseAll, answerTags: { open, close } }: CountdownOptions): string {
  return [
    "Write an arithmetic expression that equals the target, from the given numbers, + - * / and parentheses.",
    mustUseAll ? "Use every number exactly once." : "Use each number at most once; not all have to be used.",
    `Give the expression alone between ${open} and ${close}, such as ${open} (3 + 4) * 5 ${close}.`,
  ].join("\n");
}
