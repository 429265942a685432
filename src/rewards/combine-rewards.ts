/**
 * One reward made of several.
 *
 * A part that cannot tell makes the whole one that cannot tell: nothing is made up for it. `weighted` and `product` run
 * their parts at once; `gate` runs them one by one and stops at the first that is below its threshold, so put the cheap
 * ones first. The cost class is that of the most expensive part, and answers are read by the first part that reads any.
 */
import { RerollError } from "../errors/reroll-error.ts";
import { linkedAbort } from "./linked-abort.ts";
import type { CostClass, Reward, RewardInput, RewardScore } from "./reward.ts";
import { expectScore, rewardFailure } from "./reward-failure.ts";

interface RewardPart {
  readonly reward: Reward;
  /** Default 1. */
  readonly weight?: number | undefined;
  /** For `gate`: the least value that opens the way to the next part. Default 1. */
  readonly threshold?: number | undefined;
}

interface CombineOptions {
  /**
   * weighted: the sum of weight x value. product: the product of weight x value.
   * gate: as weighted when every part reaches its threshold, else `closed`.
   */
  readonly mode: "weighted" | "product" | "gate";
  readonly parts: readonly RewardPart[];
  /** What a closed gate gives. Default 0. */
  readonly closed?: number | undefined;
  /** The combined value is cut to [low, high]. */
  readonly clip?: readonly [low: number, high: number] | undefined;
  /** Default "total". */
  readonly name?: string | undefined;
}

/** The parts of its score are those of its members under `<member>` and `<member>/<part>`. */
export function combineRewards(options: CombineOptions): Reward {
  const { mode, parts, closed = 0, clip, name = "total" } = options;
  expectParts(parts, name);
  const combine = mode === "gate" ? scoreGate : scoreTogether;
  const answers = parts.find(({ reward }) => reward.answers !== undefined)?.reward.answers;
  return {
    name,
    ...(answers !== undefined && { answers }),
    cost: highestCost(parts.map(({ reward }) => reward.cost)),
    score: async (input, signal) => {
      const scored = await combine(parts, input, signal);
      const isOpen = mode !== "gate" || scored.every(({ part, score }) => score.value >= (part.threshold ?? 1));
      const values = scored.map(({ part, score }) => (part.weight ?? 1) * score.value);
      const open = mode === "product" ? values.reduce((a, b) => a * b, 1) : values.reduce((a, b) => a + b, 0);
      return { value: cut(isOpen ? open : closed, clip), parts: flatten(scored), explanation: explain(scored) };
    },
    close: async () => {
      await Promise.all(parts.map(({ reward }) => reward.close?.()));
    },
  };
}

/** The class that runs the longest, which is where a combination queues. */
export function highestCost(costs: readonly CostClass[]): CostClass {
  return costOrder.find((cost) => costs.includes(cost)) ?? "instant";
}

const costOrder = ["network", "model", "sandbox", "cpu", "instant"] as const satisfies readonly CostClass[];

interface ScoredPart {
  readonly part: RewardPart;
  readonly score: RewardScore;
}

/** All parts at once. When one fails, the others are told to stop. */
async function scoreTogether(
  parts: readonly RewardPart[],
  input: RewardInput,
  outer: AbortSignal,
): Promise<ScoredPart[]> {
  // What is over at once has nothing to stop.
  if (parts.every(({ reward }) => reward.cost === "instant")) {
    return Promise.all(parts.map((part) => scorePart(part, input, outer)));
  }
  const { signal, abort, unlink } = linkedAbort(outer);
  try {
    return await Promise.all(parts.map((part) => scorePart(part, input, signal)));
  } finally {
    unlink();
    abort();
  }
}

async function scoreGate(parts: readonly RewardPart[], input: RewardInput, signal: AbortSignal): Promise<ScoredPart[]> {
  const scored: ScoredPart[] = [];
  for (const part of parts) {
    const next = await scorePart(part, input, signal);
    scored.push(next);
    if (next.score.value < (part.threshold ?? 1)) break;
  }
  return scored;
}

async function scorePart(part: RewardPart, input: RewardInput, signal: AbortSignal): Promise<ScoredPart> {
  const { reward } = part;
  try {
    return { part, score: expectScore(reward.name, await reward.score(input, signal)) };
  } catch (cause) {
    throw rewardFailure(reward.name, cause);
  }
}

function flatten(scored: readonly ScoredPart[]): Record<string, number> {
  return Object.fromEntries(
    scored.flatMap(({ part, score }) => [
      [part.reward.name, score.value],
      ...Object.entries(score.parts ?? {}).map(([key, value]) => [`${part.reward.name}/${key}`, value]),
    ]),
  );
}

function explain(scored: readonly ScoredPart[]): string {
  return scored
    .map(({ part, score }) => `${part.reward.name} ${score.value}${score.explanation ? ` (${score.explanation})` : ""}`)
    .join("; ");
}

function cut(value: number, clip: CombineOptions["clip"]): number {
  return clip === undefined ? value : Math.min(Math.max(value, clip[0]), clip[1]);
}

function expectParts(parts: readonly RewardPart[], name: string): void {
  const names = parts.map(({ reward }) => reward.name);
  const twice = names.find((part, i) => names.indexOf(part) !== i);
  if (names.length > 0 && twice === undefined) return;
  throw new RerollError(
    "INVALID_OPTION",
    twice === undefined
      ? `Reward "${name}" combines no parts. Give at least one.`
      : `Reward "${name}" has two parts with the name "${twice}". Set name on one of them: metrics are told apart by it.`,
    { name },
  );
}
