/** The start of the path: the task that a group of trajectories begins from. */
import type { ChatMessage, ChatTool } from "./chat-message.ts";

/** Any value that a row of a data file can hold. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** One task. All trajectories of a group start from the same prompt. */
export interface Prompt {
  /** Stable over runs: the name of the source and the row, or of the environment and its seed. */
  readonly id: string;
  /** Chooses the environment and the reward. */
  readonly domain: string;
  /** Seeds the start of the environment: the same for all trajectories of a group. */
  readonly seed: number;
  /** The conversation so far. Empty where the environment writes it. */
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[];
  /** The ground truth for rewards and environments: an answer, tests, a level. Never shown to the model. */
  readonly truth: JsonValue;
  /** All other columns of the row. */
  readonly extra: Readonly<Record<string, JsonValue>>;
}
