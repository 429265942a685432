/**
 * Playing an environment without a model: by chance, by its own oracle, or by any function.
 *
 * In: an environment that has not been started, and an agent. Out: all that happened. Ends the environment also when it throws.
 */

import { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage } from "../flow/chat-message.ts";
import { Random } from "../random/random.ts";
import type { EnvStep, Observation, Opening, TextEnv } from "./text-env.ts";

/** Writes a reply to the last observation. */
export type Agent = (env: TextEnv, observation: Observation) => string | Promise<string>;

/** Plays legal replies at random. The same seed plays the same game. */
export function randomAgent(seed: number): Agent {
  const random = new Random(seed);
  return (env) => env.randomReply?.(random) ?? refuse("randomReply");
}

/** Plays the environment's own best replies. */
export function oracleAgent(): Agent {
  return (env) => env.oracleReply?.() ?? refuse("oracleReply");
}

/** One reply and what came of it. */
interface PlayedTurn {
  readonly reply: string;
  readonly step: EnvStep;
}

/** All that happened in an episode. */
interface PlayedEpisode {
  readonly opening: Opening;
  readonly turns: readonly PlayedTurn[];
  /** `stopped` where `maxTurns` came first. */
  readonly ending: "terminated" | "truncated" | "stopped";
  /** The sum of all rewards. */
  readonly totalReward: number;
  /** The mean of each metric over the turns that had it: rates of the turns, and what the last turn said of the episode. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Instructions, observations and replies as one conversation. */
  readonly transcript: readonly ChatMessage[];
}

/** When to stop early. */
interface PlayOptions {
  readonly signal?: AbortSignal;
  /** Default 1,000: an environment that never ends does not hold its caller for ever. */
  readonly maxTurns?: number;
}

/** Plays one episode to its end. */
export async function playEpisode(
  env: TextEnv,
  agent: Agent,
  { signal = new AbortController().signal, maxTurns = 1000 }: PlayOptions = {},
): Promise<PlayedEpisode> {
  try {
    const opening = await env.start(signal);
    const turns: PlayedTurn[] = [];
    let observation: Observation | undefined = opening.observation;
    while (observation !== undefined && turns.length < maxTurns) {
      signal.throwIfAborted();
      const reply = await agent(env, observation);
      const step: EnvStep = await env.step({ text: reply, isCut: false }, signal);
      turns.push({ reply, step });
      observation = step.kind === "continues" ? step.observation : undefined;
    }
    return describeEpisode(opening, turns);
  } finally {
    await env.end?.();
  }
}

function describeEpisode(opening: Opening, turns: readonly PlayedTurn[]): PlayedEpisode {
  const kind = turns.at(-1)?.step.kind ?? "continues";
  return {
    opening,
    turns,
    ending: kind === "continues" ? "stopped" : kind,
    totalReward: turns.reduce((sum, { step }) => sum + step.reward, 0),
    metrics: meanMetrics(turns),
    transcript: [
      ...opening.instructions,
      ...opening.observation.messages,
      ...turns.flatMap(({ reply, step }) => [
        { role: "assistant", content: reply },
        ...(step.observation?.messages ?? []),
      ]),
    ],
  };
}

function meanMetrics(turns: readonly PlayedTurn[]): Record<string, number> {
  const values = new Map<string, number[]>();
  for (const { step } of turns) {
    for (const [name, value] of Object.entries(step.metrics)) {
      values.set(name, [...(values.get(name) ?? []), value]);
    }
  }
  const mean = (list: readonly number[]) => list.reduce((sum, value) => sum + value, 0) / list.length;
  return Object.fromEntries([...values].map(([name, list]) => [name, mean(list)]));
}

function refuse(method: "randomReply" | "oracleReply"): never {
  throw new RerollError(
    "NO_REPLY",
    `This environment has no ${method} here. Play it with another agent, or give it the method.`,
    { method },
  );
}
