/** All built-in rewards by type, and the way from a choice such as `{ type: "choice", letters: "ABCD" }` to a reward. */
import { z } from "zod";
import { nearestName } from "../errors/nearest-name.ts";
import { parseOptions } from "../errors/parse-options.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { copyData } from "../flow/copy-data.ts";
import { codeReward } from "./code/code-reward.ts";
import { combineRewards } from "./combine-rewards.ts";
import { ifeval } from "./ifeval/ifeval.ts";
import { jsonSchema } from "./json-schema/json-schema.ts";
import { judge } from "./judge/judge.ts";
import { mathReward } from "./math/math-reward.ts";
import { remoteReward } from "./remote-reward.ts";
import type { Reward, RewardPlaces } from "./reward.ts";
import { rewardModel } from "./reward-model/reward-model.ts";
import { type RewardRoute, routeByDomain } from "./route-by-domain.ts";
import { choice } from "./rules/choice.ts";
import { contains } from "./rules/contains.ts";
import { exact } from "./rules/exact.ts";
import { format } from "./rules/format.ts";
import { length } from "./rules/length.ts";
import { regex } from "./rules/regex.ts";
import { repetition } from "./rules/repetition.ts";

export const rewards = {
  choice,
  code: codeReward,
  contains,
  exact,
  format,
  ifeval,
  "json-schema": jsonSchema,
  judge,
  length,
  math: mathReward,
  regex,
  remote: remoteReward,
  repetition,
  "reward-model": rewardModel,
} as const;

type RewardType = keyof typeof rewards;

/** What a run file says: a reward by type, the options that differ from its defaults, and a name for its metrics. */
export type RewardChoice =
  | { [Type in RewardType]: { type: Type; name?: string } & z.input<(typeof rewards)[Type]["options"]> }[RewardType]
  | CombineChoice
  | CustomRewardChoice;

/** Several rewards as one. See combineRewards. */
interface CombineChoice {
  readonly type: "combine";
  readonly name?: string;
  readonly mode: "weighted" | "product" | "gate";
  readonly parts: readonly { readonly reward: RewardChoice; readonly weight?: number; readonly threshold?: number }[];
  readonly closed?: number;
  readonly clip?: readonly [low: number, high: number];
}

/** A reward written out in the run file: `{ type: "custom", name: "short", score: ({ reply }) => ({ value: ... }) }`. */
interface CustomRewardChoice extends Omit<Reward, "cost"> {
  readonly type: "custom";
  /** Default instant. */
  readonly cost?: Reward["cost"];
}

/** Builds the reward of a choice. `path` is where the choice stands in the run file; errors start with it. */
export async function buildReward(chosen: RewardChoice, path = "reward", places: RewardPlaces = {}): Promise<Reward> {
  const { type, name, ...options } = parseOptions(taggedSchema, chosen, path);
  if (type === "combine") return buildCombination(options, name, path, places);
  if (type === "custom") {
    const reward = expectReward(options, name, path);
    return places.hostCustom?.(reward, path) ?? withCopies(reward);
  }
  const definition = definitionOf(type, path);
  const built = await definition.build(parseOptions(definition.options, options, path) as never, places);
  return name === undefined ? built : renamed(built, name);
}

/** Checks a choice without building it, and fills in the defaults of its options. */
export function resolveReward(chosen: unknown, path: string): Record<string, unknown> {
  const { type, name, ...options } = parseOptions(taggedSchema, chosen, path);
  const tag = name === undefined ? { type } : { type, name };
  if (type === "custom") return { ...tag, ...expectReward(options, name, path) };
  if (type !== "combine") return { ...tag, ...parseOptions(definitionOf(type, path).options, options, path) };
  const { parts, ...others } = parseOptions(combineSchema, options, path);
  const resolved = parts.map((part, i) => ({
    ...part,
    reward: resolveReward(part.reward, `${path}.parts.${i}.reward`),
  }));
  return { ...tag, ...others, parts: resolved };
}

/** Builds one reward per domain; the key `default` takes all other domains. */
export async function buildRoute(
  choices: Readonly<Record<string, RewardChoice>>,
  path = "rewards",
  places: RewardPlaces = {},
): Promise<RewardRoute> {
  const byDomain: Record<string, Reward> = {};
  for (const [domain, chosen] of Object.entries(choices)) {
    byDomain[domain] = await buildReward(chosen, `${path}.${domain}`, places);
  }
  return routeByDomain(byDomain);
}

const taggedSchema = z.looseObject({ type: z.string(), name: z.string().min(1).optional() });

const combineSchema = z.strictObject({
  mode: z.enum(["weighted", "product", "gate"]),
  parts: z
    .array(
      z.strictObject({
        reward: z.looseObject({ type: z.string() }),
        weight: z.number().optional(),
        threshold: z.number().optional(),
      }),
    )
    .min(1),
  closed: z.number().optional(),
  clip: z.tuple([z.number(), z.number()]).optional(),
});

async function buildCombination(
  written: unknown,
  name: string | undefined,
  path: string,
  places: RewardPlaces,
): Promise<Reward> {
  const { parts, ...options } = parseOptions(combineSchema, written, path);
  const built = [];
  for (const [i, { reward, ...part }] of parts.entries()) {
    built.push({ ...part, reward: await buildReward(reward as RewardChoice, `${path}.parts.${i}.reward`, places) });
  }
  return combineRewards({ ...options, name, parts: built });
}

function expectReward(given: Partial<Reward>, name: string | undefined, path: string): Reward {
  const { score, cost = "instant" } = given;
  if (name !== undefined && typeof score === "function") return { ...given, name, score, cost };
  throw new RerollError(
    "INVALID_OPTION",
    `${path} is of type custom and needs a name and a function score: got ${Object.keys({ ...given, ...(name && { name }) }).join(", ") || "nothing"}. ` +
      'Write { type: "custom", name: "short", score: ({ reply }) => ({ value: reply.length < 80 ? 1 : 0 }) }.',
  );
}

/** What a reward of one's own sees is a copy: one that writes into it changes nothing for others. */
function withCopies(reward: Reward): Reward {
  return { ...reward, score: (input, signal) => reward.score(copyData(input), signal) };
}

function renamed(reward: Reward, name: string): Reward {
  const { cost, answers } = reward;
  const score: Reward["score"] = (input, signal) => reward.score(input, signal);
  const copy: Reward = { name, cost, score, ...(answers !== undefined && { answers }) };
  return reward.close === undefined ? copy : { ...copy, close: () => reward.close?.() ?? Promise.resolve() };
}

function definitionOf(type: string, path: string): (typeof rewards)[RewardType] {
  const found = Object.entries(rewards).find(([known]) => known === type)?.[1];
  if (found !== undefined) return found;
  const nearest = nearestName(type, [...Object.keys(rewards), "combine", "custom"]);
  const hint = nearest === undefined ? "" : ` Did you mean "${nearest}"?`;
  throw new RerollError(
    "INVALID_OPTION",
    `${path}.type must name a reward: got ${JSON.stringify(type)}.${hint} Known are: ${Object.keys(rewards).join(", ")}, combine, custom.`,
    { type },
  );
}
