/** What a generation engine offers beside `generate`: control over its weights and its queue. */
import type { Generate } from "./generate.ts";

export interface Engine {
  readonly generate: Generate;
  /** Stops drawing tokens at the next step; requests wait where they are. Resolves when no step is running. */
  pause(): Promise<void>;
  resume(): void;
  /** Ends every request: each resolves with its tokens so far and finish "aborted". */
  abortAll(): Promise<void>;
  /**
   * Log-probs of the tokens of a prompt under the model itself, at temperature 1; NaN for the first, which nothing comes before. Absent
   * where an engine cannot say.
   */
  readonly scorePrompt?: (promptIds: Int32Array) => Promise<Float32Array>;
  status(): EngineStatus;
  close(): Promise<void>;
}

/** What a server or a pool asks of an engine: one engine here, or many of them anywhere. */
export type ServedEngine = Omit<Engine, "pause" | "resume">;

/** What an engine is doing now, and has done. Counters only grow. */
export interface EngineStatus {
  /** The version of the weights that the next token will be drawn with. */
  readonly version: number;
  readonly isPaused: boolean;
  /** Why it can never answer again, where that has happened. */
  readonly brokenBy?: string;
  readonly queuedRequests: number;
  readonly runningRequests: number;
  readonly maxQueuedRequests: number;
  readonly contextLength: number;
  /** How it computes single tokens on a GPU, in words that follow "decodes". Absent elsewhere. */
  readonly decoding?: string;
  readonly cacheUsage: number;
  /** What it holds: its cache, and weights that nobody lends it. Absent where an engine does not say. */
  readonly memoryBytes?: number;
  /** The most that its process has had on its device so far. */
  readonly peakBytes?: number;
  readonly counters: EngineCounters;
}

export interface EngineCounters {
  readonly requests: number;
  readonly finished: number;
  readonly aborted: number;
  readonly failed: number;
  /** Prompt tokens that went through the model. */
  readonly prefilledTokens: number;
  /** Prompt tokens that were found in the cache instead. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly steps: number;
}
