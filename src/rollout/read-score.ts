/** Reads what an agent returned: its reward, the rewards of its players, and its metrics. */
import { RerollError } from "../errors/reroll-error.ts";
import { copyNumbers, isSoundReward, SOUND_REWARD } from "../flow/sound-numbers.ts";
import type { AgentScore } from "./agent-call.ts";
import { describeValue } from "./describe-value.ts";

/** Checked, in memory of its own. A player without a reward is absent. */
export interface ReadScore {
  readonly rewards: ReadonlyMap<string, number>;
  readonly metrics: Readonly<Record<string, number>>;
}

/**
 * @param players the names that rewards go by
 * @throws for whatever else an agent returns; the caller adds who it was
 */
export function readScore(returned: number | AgentScore | undefined, players: readonly string[]): ReadScore {
  if (returned === undefined) return { rewards: new Map(), metrics: {} };
  if (typeof returned === "number") return { rewards: readRewards(returned, players), metrics: {} };
  if (typeof returned !== "object" || returned === null || Array.isArray(returned)) throw noScore(returned);
  const { reward, metrics = {}, ...others } = returned;
  const [other] = Object.keys(others);
  if (other !== undefined) throw noScore(returned);
  const numbers = copyNumbers(metrics);
  if (numbers === null)
    throw invalid(`metrics must be finite numbers by name, at most 256: got ${describeValue(metrics)}.`);
  return { rewards: reward === undefined ? new Map() : readRewards(reward, players), metrics: numbers };
}

function readRewards(
  reward: number | Readonly<Record<string, number>>,
  players: readonly string[],
): Map<string, number> {
  const [only, ...others] = players;
  if (typeof reward !== "object" || reward === null) {
    if (!isSoundReward(reward)) throw invalid(`the reward must be ${SOUND_REWARD}: got ${describeValue(reward)}.`);
    if (only !== undefined && others.length === 0) return new Map([[only, reward]]);
    throw invalid(
      `one reward for the players ${players.join(", ")}: got ${reward}. Return { reward: { ${only}: ..., ... } }, by the name of each.`,
    );
  }
  const rewards = new Map<string, number>();
  for (const [name, value] of Object.entries(reward)) {
    if (!players.includes(name)) {
      throw invalid(
        `a reward for ${JSON.stringify(name)}, which is no player of the run. Those are: ${players.join(", ")}.`,
      );
    }
    if (!isSoundReward(value))
      throw invalid(`the reward of ${name} must be ${SOUND_REWARD}: got ${describeValue(value)}.`);
    rewards.set(name, value);
  }
  return rewards;
}

function noScore(got: unknown): RerollError {
  return invalid(`it returned ${describeValue(got)}. It must return a number, { reward, metrics }, or nothing.`);
}

function invalid(message: string): RerollError {
  return new RerollError("INVALID_REWARD", message);
}
