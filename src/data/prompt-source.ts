/**
 * Where prompts come from: an endless stream whose position can be saved and restored exactly.
 *
 * A source decides its order from its seed alone, so two runs with one seed see the same prompts. A caller waits for one call
 * of `next` before it makes another, and takes the position in between.
 */
import type { JsonValue, Prompt } from "../flow/prompt.ts";

/** An ordered stream of prompts. */
export interface PromptSource {
  /**
   * The next prompts. Fewer only when the source has an end; none means it is over. Rejects with `PROMPT_FAILED` where one cannot be
   * made; the source is past it then, and can be asked for the next.
   */
  next(count: number): Promise<readonly Prompt[]>;
  /** The position, as plain data. A source of the same making that restores it goes on with the same prompts. */
  position(): JsonValue;
  /** Goes on from a position. Rejects with `STATE_MISMATCH` where it was taken from a source of another making. */
  restore(position: JsonValue): Promise<void>;
  /**
   * Tells a source that learns what came of a prompt: the total rewards of its trajectories. Absent where nothing learns.
   * An id that the source never gave is left out, so that a mixture can tell all of its parts.
   */
  record?(promptId: string, rewards: readonly number[]): void;
  /** Rows in one pass over the data; undefined where there is no such thing. */
  readonly size?: number;
}
