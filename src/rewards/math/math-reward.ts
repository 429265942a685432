/**
 * Scores a reply by its final answer: 1 where it means the same as the truth, 0 where it does not or where there is none.
 *
 * Comparing takes microseconds on the caller's thread for nearly all answers. What that cannot decide goes to threads with
 * a time limit; one that hangs or crashes rejects (REWARD_TIMEOUT, REWARD_CRASHED) and is never a zero.
 */
import { z } from "zod";
import { expectPackage } from "../../errors/optional-package.ts";
import { RerollError } from "../../errors/reroll-error.ts";
import type { Prompt } from "../../flow/prompt.ts";
import type { Reward, RewardDefinition, RewardInput, RewardScore } from "../reward.ts";
import { truthKey, truthTexts } from "../truth-texts.ts";
import { type Comparison, compareAnswers } from "./compare-answers.ts";
import { EXTRACTION_METHODS, extractAnswer } from "./extract-answer.ts";
import { SymbolicPool } from "./symbolic-pool.ts";
import { isUnfinished } from "./unfinished.ts";

/** Options of the reward "math". */
const mathRewardOptions = z.strictObject({
  extract: z
    .array(z.enum(EXTRACTION_METHODS))
    .nonempty()
    .default([...EXTRACTION_METHODS])
    .describe("Where to look for the answer, in order; the first find decides. [boxed] demands a box."),
  roundedDigits: z
    .int()
    .min(2)
    .default(5)
    .describe(
      "A decimal with at least this many significant digits equals what rounds to it. Below, decimals are exact.",
    ),
  percentIsFraction: z
    .boolean()
    .default(false)
    .describe("Whether 50% is right where the truth is 0.5. Where the truth is 50%, 50 and 0.5 are always right."),
  acceptUnfinished: z
    .boolean()
    .default(false)
    .describe("Whether 17 * 23 or 782/2 is right where the truth is 391. Then restating the task pays."),
  undecided: z
    .enum(["wrong", "error"])
    .default("wrong")
    .describe(
      "What becomes of an answer that nobody can compare: a score of 0, or a failure that keeps it out of the loss.",
    ),
  symbolic: z
    .boolean()
    .default(true)
    .describe(
      "Whether answers that the fast comparison cannot decide are compared by computer algebra, which the package @cortex-js/compute-engine does. Without it such answers are undecided.",
    ),
  numWorkers: z
    .int()
    .min(1)
    .default(1)
    .describe("Threads that compare answers by computer algebra; they start when they are first needed."),
  timeoutMs: z.int().min(1).default(3_000).describe("Limit of one comparison in such a thread. Most take 2 to 200 ms."),
  truthKey,
});

type MathRewardOptions = z.output<typeof mathRewardOptions>;

/** The reward "math", as run files name it. The truth of a prompt is the answer, or a list of answers that are all right. */
export const mathReward: RewardDefinition<typeof mathRewardOptions> = {
  type: "math",
  options: mathRewardOptions,
  build: createMathReward,
};

/** What to do without the computer algebra. Leaving it out by itself would give other rewards on machines that lack the package. */
export const NO_SYMBOLIC =
  "Or set symbolic to false: answers that only computer algebra can compare, such as sums and products in LaTeX, are then undecided.";

/** A reward that owns threads once it has needed them: close it. */
export function createMathReward(options: MathRewardOptions): Reward {
  if (options.symbolic) expectPackage("@cortex-js/compute-engine", 'The reward "math"', NO_SYMBOLIC);
  const pool = new SymbolicPool(options);
  return {
    name: "math",
    cost: "cpu",
    score: (input, signal) => scoreReply(input, signal, pool, options),
    // What only computer algebra could tell apart counts as different: a vote does not wait for a thread.
    answers: {
      read: (reply) => extractAnswer(reply, options.extract)?.text ?? null,
      isSame: (one, other) => one === other || compareAnswers(one, other, options).kind === "equal",
    },
    close: () => pool.close(),
  };
}

async function scoreReply(
  input: RewardInput,
  signal: AbortSignal,
  pool: SymbolicPool,
  options: MathRewardOptions,
): Promise<RewardScore> {
  const truths = readTruths(input.prompt, options.truthKey);
  const answer = extractAnswer(input.reply, options.extract);
  if (answer === null)
    return { value: 0, parts: { extracted: 0, undecided: 0, symbolic: 0 }, explanation: "The reply has no answer." };
  let best: Judgement = { verdict: "different", isSymbolic: false };
  for (const truth of truths) {
    const judgement = await judge(truth, answer.text, signal, pool, options);
    if (RANK[judgement.verdict] >= RANK[best.verdict]) best = judgement;
    if (best.verdict === "equal") break;
  }
  const found = `"${answer.text}" (${answer.method})`;
  const expected = truths.map((truth) => `"${truth}"`).join(" or ");
  if (best.verdict === "undecided" && options.undecided === "error") throw undecidable(found, expected);
  return {
    value: best.verdict === "equal" ? 1 : 0,
    parts: { extracted: 1, undecided: Number(best.verdict === "undecided"), symbolic: Number(best.isSymbolic) },
    explanation: `Found ${found}, which ${SAID[best.verdict]} ${expected}.`,
  };
}

interface Judgement {
  readonly verdict: "equal" | "different" | "unfinished" | "undecided";
  readonly isSymbolic: boolean;
}

const RANK = { different: 0, unfinished: 1, undecided: 2, equal: 3 } as const;
const SAID = {
  equal: "equals",
  different: "differs from",
  unfinished: "leaves the arithmetic undone of",
  undecided: "could not be compared with",
} as const;

async function judge(
  truth: string,
  answer: string,
  signal: AbortSignal,
  pool: SymbolicPool,
  options: MathRewardOptions,
): Promise<Judgement> {
  const comparison = compareAnswers(truth, answer, options);
  const isSymbolic = options.symbolic && comparison.kind === "open" && comparison.pairs.length > 0;
  const verdict = isSymbolic
    ? await compareAll(comparison.pairs, signal, pool)
    : comparison.kind === "open"
      ? "undecided"
      : comparison.kind;
  const isUndone = verdict === "equal" && !options.acceptUnfinished && isUnfinished(truth, answer);
  return { verdict: isUndone ? "unfinished" : verdict, isSymbolic };
}

async function compareAll(
  pairs: Extract<Comparison, { kind: "open" }>["pairs"],
  signal: AbortSignal,
  pool: SymbolicPool,
): Promise<"equal" | "different" | "undecided"> {
  const verdicts = await Promise.all(pairs.map(([left, right]) => pool.compare(left, right, signal)));
  if (verdicts.includes("different")) return "different";
  return verdicts.includes("unknown") ? "undecided" : "equal";
}

/** A truth may be written as data sets have it: an answer, or a whole solution with `####` or a box. */
function readTruths(prompt: Prompt, key: string | undefined): readonly string[] {
  const truths = truthTexts("math", prompt, key).map((text) => extractAnswer(text, ["hash", "boxed"])?.text ?? text);
  if (truths.every((text) => text.trim() !== "")) return truths;
  throw new RerollError(
    "INVALID_TRUTH",
    `Reward "math" needs an answer as truth: prompt "${prompt.id}" has an empty one.`,
    {
      prompt: prompt.id,
    },
  );
}

function undecidable(found: string, expected: string): RerollError {
  return new RerollError("REWARD_UNDECIDED", `The answer ${found} could not be compared with ${expected}.`, {
    found,
    expected,
  });
}
