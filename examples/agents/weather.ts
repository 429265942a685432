/**
 * The task that the agents of this folder share: which of two cities is warmer? They have a tool that knows, and have to ask it for
 * both, best in one reply.
 */
import type { Prompt } from "reroll";

const DEGREES: Readonly<Record<string, number>> = { Rome: 24, Oslo: 9, Cairo: 33, Lima: 19, Tokyo: 21, Perth: 28 };

export const instructions = "Ask the tool for the weather of each city, then answer with the name of the warmer one.";

export const toolDescription = "Tells how warm it is in a city, in degrees Celsius.";

/** What the tool answers. */
export function weatherOf(city: string): string {
  return JSON.stringify({ city, degrees: DEGREES[city] ?? null });
}

export const cities = Object.keys(DEGREES);

/** An answer as JSON, for agents that ask for a schema. */
export const citySchema = {
  type: "object",
  properties: { city: { enum: cities } },
  required: ["city"],
  additionalProperties: false,
} as const;

/** One question for every two cities, as rows of data. */
export const questions = cities.flatMap((one, i) =>
  cities.slice(i + 1).map((other) => ({
    prompt: `Where is it warmer, in ${one} or in ${other}?`,
    answer: DEGREES[one]! > DEGREES[other]! ? one : other,
  })),
);

export function questionOf({ messages }: Prompt): string {
  return String(messages[0]?.content);
}

/** 1 for the right city, less 0.001 for every character of the answer. */
export function rewardFor({ truth }: Prompt, answer: string): number {
  return (answer.includes(String(truth)) ? 1 : 0) - answer.length / 1000;
}

/** What the run files of this folder have in common: small enough for two CPU cores. With a model that can call tools, set model.path. */
export const shared = {
  model: { preset: "nano" },
  data: { type: "rows", rows: questions },
  rollout: {
    ...{ groupsPerStep: 4, groupSize: 8, maxInFlight: 32, maxTurns: 8, contextLength: 1024 },
    sampling: { maxTokens: 32 },
  },
  training: { optimizer: { lr: 1e-3 } },
  loop: { type: "sync", steps: 30 },
} as const;
