/** What became of a reward that could not tell: an error that names it, and a check that what it gave is a score. */
import { inspect } from "node:util";
import { RerollError } from "../errors/reroll-error.ts";
import { copyNumbers, isSoundReward, SOUND_REWARD } from "../flow/sound-numbers.ts";
import type { RewardScore } from "./reward.ts";

/**
 * The error of a reward that threw. Keeps the code of the cause, so that a policy can tell a spent budget from a bug, and the words of one that
 * begins with this reward already, as those of its thread do.
 */
export function rewardFailure(name: string, cause: unknown): RerollError {
  const { code, details, message } =
    cause instanceof RerollError
      ? cause
      : {
          code: "REWARD_FAILED" as const,
          details: {},
          message: cause instanceof Error ? cause.message : String(cause),
        };
  const own = `Reward "${name}"`;
  const text = message.startsWith(`${own} `) ? message : `${own} failed: ${message}`;
  return new RerollError(code, text, { ...details, reward: name }, { cause });
}

/** A copy of a score. Refuses what is none: not an object, a value or part that is not a finite number, or a value that is too large. */
export function expectScore(name: string, given: unknown): RewardScore {
  const { value, parts, explanation } = isObject(given) ? given : {};
  if (!isSoundReward(value)) throw notAScore(name, "value", given);
  const numbers = parts === undefined ? undefined : copyNumbers(parts);
  if (numbers === null) throw notAScore(name, "parts", given);
  if (explanation !== undefined && typeof explanation !== "string") throw notAScore(name, "explanation", given);
  return {
    value,
    ...(numbers !== undefined && { parts: numbers }),
    ...(explanation !== undefined && { explanation }),
  };
}

function notAScore(name: string, field: string, given: unknown): RerollError {
  return new RerollError(
    "INVALID_REWARD",
    `Reward "${name}" returned no score: ${field} is wrong in ${show(given)}. ` +
      `It must return { value, parts?, explanation? } with finite numbers, the value ${SOUND_REWARD} and at most 256 parts, or throw where it cannot tell.`,
    { reward: name },
  );
}

function show(given: unknown): string {
  return inspect(given, { depth: 2, breakLength: Number.POSITIVE_INFINITY, customInspect: false }).slice(0, 200);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
