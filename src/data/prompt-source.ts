/**
 * Where prompts come from: an endless stream whose position can be saved and restored exactly.
 *
 * A source decides its order from its seed alone, so two runs with one seed see the same prompts.
 */
import type { JsonValue, Prompt } from "../flow/prompt.ts";

export interface PromptSource {
  /** The next prompts. Fewer only when the source has an end; none means it is over. */
  next(count: number): Promise<readonly Prompt[]>;
  /** The position, as plain data. A source of the same making that restores it goes on with the same prompts. */
  position(): JsonValue;
  restore(position: JsonValue): Promise<void>;
  /** Rows in one pass over the data; undefined where there is no such thing. */
  readonly size?: number;
}
