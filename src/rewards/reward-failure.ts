/** What became of a reward that could not tell: an error that names it, and a check that what it gave is a score. */
import { RerollError } from "../errors/reroll-error.ts";
import type { RewardScore } from "./reward.ts";

/** The error of a reward that threw. Keeps the code of the cause, so that a policy can tell a spent budget from a bug. */
export function rewardFailure(name: string, cause: unknown): RerollError {
  const { code, details, message } =
    cause instanceof RerollError
      ? cause
      : {
          code: "REWARD_FAILED" as const,
          details: {},
          message: cause instanceof Error ? cause.message : String(cause),
        };
  return new RerollError(code, `Reward "${name}" failed: ${message}`, { ...details, reward: name }, { cause });
}

/** Refuses what is no score: not an object, a value or part that is not a finite number. */
export function expectScore(name: string, given: unknown): RewardScore {
  const score = isObject(given) ? given : {};
  if (typeof score.value !== "number" || !Number.isFinite(score.value)) throw notAScore(name, "value", given);
  if (score.parts !== undefined) {
    if (!isObject(score.parts)) throw notAScore(name, "parts", given);
    const wrong = Object.entries(score.parts).find(([, part]) => typeof part !== "number" || !Number.isFinite(part));
    if (wrong !== undefined) throw notAScore(name, `parts.${wrong[0]}`, given);
  }
  if (score.explanation !== undefined && typeof score.explanation !== "string")
    throw notAScore(name, "explanation", given);
  return given as RewardScore;
}

function notAScore(name: string, field: string, given: unknown): RerollError {
  return new RerollError(
    "INVALID_REWARD",
    `Reward "${name}" returned no score: ${field} is wrong in ${show(given)}. ` +
      "It must return { value, parts?, explanation? } with finite numbers, or throw where it cannot tell.",
    { reward: name },
  );
}

function show(given: unknown): string {
  if (!isObject(given)) return String(given);
  return `{ ${Object.entries(given)
    .map(([key, value]) => `${key}: ${isObject(value) ? show(value) : String(value)}`)
    .join(", ")} }`.slice(0, 200);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
