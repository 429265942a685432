/** What an agent of one's own is given for one episode, and what it gives back. */
import type { Prompt } from "../flow/prompt.ts";

/**
 * The agent: any code that calls an OpenAI-compatible endpoint. Resolves with its reward, alone or with metrics, or with undefined
 * where the reward is posted to `rewardURL` or given by the rewards of the run.
 */
export type RunAgent = (prompt: Prompt, call: AgentCall) => Promise<number | AgentScore | undefined>;

/** A reward with more beside it. */
export interface AgentScore {
  /** The reward, or where the run has players, the reward of each by its name. Absent: posted, or given by the rewards of the run. */
  readonly reward?: number | Readonly<Record<string, number>>;
  /** Numbers about the episode, averaged over trajectories and shown as `env/...`. */
  readonly metrics?: Readonly<Record<string, number>>;
}

/** How to reach the model: everything that a client has to be told. */
export interface AgentEndpoint {
  /**
   * For the client of the `openai` package, the AI SDK and the like. It names the session, so nothing else has to be
   * set.
   */
  readonly baseURL: string;
  /** Any text where the server needs none: clients insist on one. */
  readonly apiKey: string;
  /** The name of the model. The endpoint of a run answers to every other name too. */
  readonly model: string;
  readonly sessionId: string;
  /** Name the session too, for agents that use the server's plain base URL. */
  readonly headers: Readonly<Record<string, string>>;
  /** Takes POST { reward, metadata }; numbers in the metadata become metrics of the trajectory. */
  readonly rewardURL: string;
}

/** What an agent is given for one episode. Where the run has players, the endpoint is that of the first one. */
export interface AgentCall extends AgentEndpoint {
  /** The endpoint of a player, by its name under `players` in the run file. Throws for any other name. */
  player(name: string): AgentEndpoint;
  /** For whatever the agent draws, and to pass on as `seed` where samples should be repeatable. */
  readonly seed: number;
  /** Aborted when the episode is over, for whatever reason. */
  readonly signal: AbortSignal;
}
