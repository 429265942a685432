/** The shape that every step in a tokenizer.json shares: a `type` and the settings of that type. */

import { z } from "zod";
import { RerollError } from "../../errors/reroll-error.ts";

/** A normalizer, pre-tokenizer, post-processor or decoder. */
export const pipelineStep = z.looseObject({ type: z.string() });
export type PipelineStep = z.infer<typeof pipelineStep>;

/** The pattern that a step searches for: a literal text or an Oniguruma regular expression. */
export const searchPattern = z.union([z.object({ String: z.string() }), z.object({ Regex: z.string() })]);
export type SearchPattern = z.infer<typeof searchPattern>;

/** Reads the settings of a step, or says which one is wrong. */
export function readStep<Settings>(step: PipelineStep, settings: z.ZodType<Settings>): Settings {
  const result = settings.safeParse(step);
  if (result.success) return result.data;
  throw new RerollError(
    "TOKENIZER_BROKEN",
    `tokenizer.json has a step of type "${step.type}" with wrong settings: ${z.prettifyError(result.error)}.`,
    { step },
  );
}
