/** A reward model that lives in a worker, as its owner calls it. */

import type { ChatMessage, ChatTool } from "../../flow/chat-message.ts";
import type { WorkerMemory } from "../../flow/worker-facts.ts";

/** What a reward model's worker is started with. */
export interface RewardModelSource {
  readonly path: string;
  readonly device: string;
  readonly dtype?: "float32" | "bfloat16" | "float16";
  readonly windowMs: number;
  readonly maxBatchTokens: number;
}

export interface RewardModelHost {
  /** The score of a conversation. Those that are asked for within a few milliseconds share a forward pass. */
  score(messages: readonly ChatMessage[], tools: readonly ChatTool[], signal: AbortSignal): Promise<number>;
  /** Moves the weights to host memory, once what was asked for is scored. The next conversation wakes it. */
  sleep(): Promise<void>;
  memory(): Promise<WorkerMemory>;
  /** Frees the model. */
  close(): Promise<void>;
}
