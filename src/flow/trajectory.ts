/**
 * The output of rollout: trajectories in groups, with every token as it was sampled.
 *
 * Nothing here is changed once it is made. A failed trajectory is still a trajectory: it says why it failed, is counted
 * and shown, and is left out of the loss.
 */

import type { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage, ChatTool } from "./chat-message.ts";
import type { Prompt } from "./prompt.ts";
import type { SampledTokens } from "./sampled-tokens.ts";

/** The G trajectories of one prompt. */
export interface TrajectoryGroup {
  readonly id: string;
  readonly prompt: Prompt;
  readonly trajectories: readonly Trajectory[];
  /**
   * One more trajectory of the prompt, sampled at temperature 0, for recipes whose baseline is its reward. It is never trained on.
   */
  readonly greedy?: Trajectory;
}

/** One episode. */
export interface Trajectory {
  /** Unique in a run. */
  readonly id: string;
  readonly groupId: string;
  readonly prompt: Prompt;
  /** Its place in the group. */
  readonly sampleIndex: number;
  /** The seed of its tokens and of its environment. */
  readonly seed: number;
  readonly turns: readonly Turn[];
  readonly end: TrajectoryEnd;
  readonly reward: TrajectoryReward;
  /** Numbers from the environment and the rewards, such as `success`, to be averaged over trajectories. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly timings: TrajectoryTimings;
  /** What came of trying again, in a run with reflection. Its reward is no part of the group. */
  readonly secondTry?: SecondTry;
}

/** Another try at the same task, with what the model wrote about the first in its context. */
export interface SecondTry extends Pick<Trajectory, "turns" | "end" | "reward"> {
  /** What the model wrote about its first try. */
  readonly reflection: string;
  /** Whether it succeeded, and is learned without the reflection. */
  readonly isLearned: boolean;
}

/** One reply of the model, and what came of it. */
export interface Turn {
  /** The whole prompt as the engine got it. */
  readonly promptIds: Int32Array;
  /**
   * The same prompt as the other side of a distillation reads it: the teacher, with its context; or in a second try the policy, without
   * the reflection. What the engine said of the reply holds for `promptIds` alone.
   */
  readonly twinPromptIds?: Int32Array;
  /** Log-probs of the reply's tokens that a server gave as the teacher. */
  readonly teacherLogprobs?: Float32Array;
  readonly reply: SampledTokens;
  readonly replyText: string;
  /** The messages that this turn answered, which are new since the last turn. */
  readonly messages: readonly ChatMessage[];
  /** The reply as the client of an agent reads it, and the tools that the model was offered. Absent where no agent played. */
  readonly chat?: { readonly reply: ChatMessage; readonly tools: readonly ChatTool[] };
  /** Who played it, in an episode with several players. Its turns are one trajectory when it is trained on. */
  readonly player?: string;
  /** Why the reply ended. */
  readonly finish: "stop" | "length" | "aborted" | "failed";
  /** The environment's reward for this turn. */
  readonly reward: number;
  /** The state the turn started from, as a key: equal keys are equal states. */
  readonly stateKey?: string;
  /** The state that the turn led to, in the same way: for the record. */
  readonly nextStateKey?: string;
  readonly metrics: Readonly<Record<string, number>>;
  /** When the turn began, in milliseconds since the start of the trajectory. */
  readonly startedMs: number;
  readonly generateMs: number;
  readonly envMs: number;
}

export type TrajectoryEnd =
  | { readonly kind: "completed" }
  | { readonly kind: "truncated"; readonly limit: "tokens" | "turns" | "context" | "wall-clock" | "environment" }
  /** Stopped from outside before it was over, because there were enough groups or the run stopped. */
  | { readonly kind: "aborted" }
  | { readonly kind: "failed"; readonly stage: FailedStage; readonly error: RerollError };

/** The stage in which a trajectory failed. */
export type FailedStage = "environment" | "generation" | "reward";

/** The reward of a trajectory, as a whole and in parts. */
export interface TrajectoryReward {
  /** The sum over all turns plus the score of the whole. 0 for a failed trajectory, whose reward nothing may read. */
  readonly total: number;
  /** The score from the reward functions for the whole trajectory, without the environment's rewards per turn. */
  readonly score: number;
  /** The parts of the score by the name of the reward. */
  readonly parts: Readonly<Record<string, number>>;
  /** In an episode with several players, what each of those that are trained earned. The total is their mean. */
  readonly players?: Readonly<Record<string, number>>;
}

export interface TrajectoryTimings {
  /** When the trajectory began, in milliseconds on the run's clock. */
  readonly startedMs: number;
  /** Time spent in the queue. */
  readonly queuedMs: number;
  readonly generateMs: number;
  readonly envMs: number;
  readonly rewardMs: number;
  readonly totalMs: number;
}
