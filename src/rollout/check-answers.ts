/**
 * Environments and rewards are other people's code: what they return is checked before it is believed.
 *
 * Each function returns what is right and throws for what is wrong; the caller adds the name of the call.
 */

import type { EnvStep, Observation, Opening, TextEnv } from "../envs/text-env.ts";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { RewardOutcome } from "../rewards/score-all.ts";
import { describeValue } from "./describe-value.ts";

export function expectEnv(env: TextEnv): TextEnv {
  if (typeof env?.start === "function" && typeof env.step === "function") return env;
  throw broken("ENV_BROKEN", env, "an environment with start and step");
}

export function expectOpening(opening: Opening): Opening {
  if (isMessages(opening?.instructions) && isObservation(opening.observation)) return opening;
  throw broken("ENV_BROKEN", opening, "{ instructions, observation: { messages } }");
}

export function expectStep(step: EnvStep): EnvStep {
  const kinds: readonly string[] = ["continues", "terminated", "truncated"];
  const isOver = step?.kind !== "continues" || isObservation(step.observation);
  if (kinds.includes(step?.kind) && isOver && Number.isFinite(step.reward) && isNumbers(step.metrics)) return step;
  throw broken(
    "ENV_BROKEN",
    step,
    "{ kind, reward, metrics } with finite numbers, and an observation where it continues",
  );
}

export function expectOutcome(outcome: RewardOutcome): RewardOutcome {
  if (outcome?.kind === "failed" && outcome.error instanceof Error) return outcome;
  if (outcome?.kind === "scored" && Number.isFinite(outcome.score) && isNumbers(outcome.parts)) return outcome;
  throw broken("INVALID_REWARD", outcome, '{ kind: "scored", score, parts } with finite numbers, or a failure');
}

function isObservation(observation: Observation | undefined): boolean {
  return isMessages(observation?.messages);
}

function isMessages(messages: unknown): boolean {
  return Array.isArray(messages) && messages.every((message) => typeof message === "object" && message !== null);
}

function isNumbers(record: unknown): boolean {
  return typeof record === "object" && record !== null && Object.values(record).every(Number.isFinite);
}

function broken(code: ErrorCode, got: unknown, expected: string): RerollError {
  return new RerollError(code, `it returned ${describeValue(got)}. It must return ${expected}.`);
}
