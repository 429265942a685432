/** What a prompt's truth says, as texts to compare with. */
import { z } from "zod";
import { RerollError } from "../errors/reroll-error.ts";
import type { JsonValue, Prompt } from "../flow/prompt.ts";

/** The option that rewards with a truth share. */
export const truthKey = z
  .string()
  .optional()
  .describe("The field of the truth to compare with, where the truth is an object. Default: the truth itself.");

/** The truth, or one field of it. */
export function truthOf(reward: string, prompt: Prompt, key: string | undefined): JsonValue {
  const { truth } = prompt;
  if (key === undefined) return truth;
  if (isRecord(truth) && Object.hasOwn(truth, key)) return truth[key] ?? null;
  throw new RerollError(
    "INVALID_TRUTH",
    `Reward "${reward}" compares with truth.${key}, which prompt "${prompt.id}" does not have: its truth is ` +
      `${JSON.stringify(truth).slice(0, 200)}. Change truthKey, or the data source.`,
    { prompt: prompt.id, key },
  );
}

/** The accepted answers: a text or a number is one, a list of these is several. */
export function truthTexts(reward: string, prompt: Prompt, key: string | undefined): string[] {
  const truth = truthOf(reward, prompt, key);
  const texts = Array.isArray(truth) ? truth : [truth];
  if (texts.length > 0 && texts.every((text) => typeof text === "string" || typeof text === "number")) {
    return texts.map(String);
  }
  throw new RerollError(
    "INVALID_TRUTH",
    `Reward "${reward}" needs a text, a number or a list of these as truth: prompt "${prompt.id}" has ` +
      `${JSON.stringify(truth).slice(0, 200)}. Set truthKey to a field that holds one.`,
    { prompt: prompt.id },
  );
}

function isRecord(value: JsonValue): value is { readonly [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
