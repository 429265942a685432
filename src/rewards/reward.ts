/**
 * What a reward is: a function from a finished trajectory to a number, with a declared cost.
 *
 * A reward that cannot tell throws or rejects; that is an outcome of its own, never a zero. `scoreAll` (score-all.ts) runs them
 * with time limits and pools by cost class.
 */
import type { z } from "zod";
import type { ChatMessage } from "../flow/chat-message.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { RewardModelHost, RewardModelSource } from "./reward-model/reward-model-host.ts";

export interface Reward {
  /** Shown in metrics as `reward/<name>`. */
  readonly name: string;
  readonly cost: CostClass;
  /** Rejects or throws where it cannot tell. Stops early when the signal says so. */
  readonly score: (input: RewardInput, signal: AbortSignal) => RewardScore | Promise<RewardScore>;
  /** How it finds the answer in a reply, for votes among several replies. Absent where it judges replies as a whole. */
  readonly answers?: AnswerReader;
  /** Frees workers, sandboxes and connections. */
  close?(): Promise<void>;
}

/** Finds the answers of replies, and tells which are the same. */
export interface AnswerReader {
  /** The answer that a reply commits to; null where there is none. */
  readonly read: (reply: string) => string | null;
  readonly isSame: (one: string, other: string) => boolean;
}

/** instant: microseconds, on the caller's thread; cpu: a worker thread; sandbox: a process; model: a device; network: a server. */
export type CostClass = "instant" | "cpu" | "sandbox" | "model" | "network";

/** What a reward sees of a trajectory. */
export interface RewardInput {
  readonly prompt: Prompt;
  /** The last reply. */
  readonly reply: string;
  /** The whole conversation, with all replies. */
  readonly messages: readonly ChatMessage[];
  /** Tokens that the model wrote, in all turns. */
  readonly numReplyTokens: number;
  /** Whether a limit cut the trajectory off. */
  readonly isTruncated: boolean;
}

export interface RewardScore {
  readonly value: number;
  /** Numbers worth showing beside the value, such as `extracted: 1` or the parts of a sum. */
  readonly parts?: Readonly<Record<string, number>>;
  /** Why, for a person who looks at one trajectory. */
  readonly explanation?: string;
}

/** Where parts of rewards run. What is absent has a place by default. */
export interface RewardPlaces {
  /** Gives a reward of one's own another place to run in, by where it stands in the run file. Default: the thread that asks. */
  readonly hostCustom?: (reward: Reward, path: string) => Reward;
  /** Starts a reward model. Default: in a thread, on the device that it names. */
  readonly startModel?: (source: RewardModelSource) => Promise<RewardModelHost>;
}

/** A built-in reward as run files name it: `{ type, ...options }`. */
export interface RewardDefinition<Schema extends z.ZodObject = z.ZodObject> {
  readonly type: string;
  readonly options: Schema;
  /** Rewards without a model of their own take no places. */
  readonly build: (options: z.output<Schema>, places?: RewardPlaces) => Reward | Promise<Reward>;
}
