/**
 * Environments and rewards are other people's code: what they return is checked before it is believed, and copied, so that it
 * stays what it was when it was checked.
 *
 * Each function returns what is right and throws for what is wrong; the caller adds the name of the call.
 */

import type { EnvStep, Observation, Opening, TextEnv } from "../envs/text-env.ts";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import { copyNumbers, isSoundReward, SOUND_REWARD } from "../flow/sound-numbers.ts";
import type { RewardOutcome } from "../rewards/score-all.ts";
import { describeValue } from "./describe-value.ts";

export function expectEnv(env: TextEnv): TextEnv {
  if (typeof env?.start === "function" && typeof env.step === "function") return env;
  throw broken("ENV_BROKEN", env, "an environment with start and step");
}

export function expectOpening(opening: Opening): Opening {
  const copy = copyPlain(opening) as Opening;
  if (isMessages(copy?.instructions) && isObservation(copy.observation)) return copy;
  throw broken("ENV_BROKEN", opening, "{ instructions, observation: { messages } }");
}

export function expectStep(step: EnvStep): EnvStep {
  const { kind, reward, observation } = step ?? {};
  const kinds: readonly string[] = ["continues", "terminated", "truncated"];
  const metrics = copyNumbers(step?.metrics);
  const shown = copyPlain(observation) as Observation | undefined;
  const isOver = kind !== "continues" || isObservation(shown);
  if (kinds.includes(kind) && isOver && isSoundReward(reward) && metrics !== null) {
    return { kind, reward, metrics, ...(shown !== undefined && { observation: shown }) } as EnvStep;
  }
  throw broken(
    "ENV_BROKEN",
    step,
    `{ kind, reward, metrics } with finite numbers, the reward ${SOUND_REWARD}, at most 256 metrics, and an observation where it continues`,
  );
}

export function expectOutcome(outcome: RewardOutcome): RewardOutcome {
  if (outcome?.kind === "failed" && outcome.error instanceof Error) return outcome;
  const parts = outcome?.kind === "scored" ? copyNumbers(outcome.parts) : null;
  if (outcome?.kind === "scored" && isSoundReward(outcome.score) && parts !== null) return { ...outcome, parts };
  throw broken(
    "INVALID_REWARD",
    outcome,
    `{ kind: "scored", score, parts } with finite numbers, the score ${SOUND_REWARD}, or a failure`,
  );
}

/** The sum of the rewards of an episode. One that is too large is a failure, though its parts are sound. */
export function expectTotal(total: number): number {
  if (isSoundReward(total)) return total;
  throw new RerollError("INVALID_REWARD", `the rewards of the episode add up to ${total}. Allowed is ${SOUND_REWARD}.`);
}

/** Deeper than any message; a structure that holds itself is endlessly deep. */
const MAX_DEPTH = 64;

/** Plain data in memory of its own. Getters are asked once; what is not plain data is refused. */
function copyPlain(value: unknown, depth = 0): unknown {
  if (typeof value !== "object" || value === null) {
    if (typeof value !== "function" && typeof value !== "symbol" && typeof value !== "bigint") return value;
    throw broken("ENV_BROKEN", value, "plain data");
  }
  if (depth === MAX_DEPTH) {
    throw new RerollError("ENV_BROKEN", "it returned data that is nested too deeply, or holds itself.");
  }
  if (Array.isArray(value)) return value.map((item) => copyPlain(item, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, copyPlain(item, depth + 1)]));
}

function isObservation(observation: Observation | undefined): boolean {
  return isMessages(observation?.messages);
}

function isMessages(messages: unknown): boolean {
  return Array.isArray(messages) && messages.every((message) => typeof message === "object" && message !== null);
}

function broken(code: ErrorCode, got: unknown, expected: string): RerollError {
  return new RerollError(code, `it returned ${describeValue(got)}. It must return ${expected}.`);
}
