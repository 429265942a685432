/**
 * Episodes of an agent of one's own, unchanged: it talks to the OpenAI-compatible server, and what it makes the model
 * write is trained on.
 *
 * In: a prompt. Out: a trajectory with the very tokens that the server drew for the agent's session; replies whose
 * history the agent rewrote are forked samples. Never rejects for what the agent, the engine or the reward do: that is
 * in `end`.
 *
 * Waits for: the agent, up to `episodeMs`. Given up on, its signal is aborted and its next call is refused. The server
 * samples as the agent asks; `samplingOverrides` of the server have the last word, as on the temperature in training. Held
 * rollouts do not stop an agent.
 */
import type { ChatFormat } from "../chat/conversation.ts";
import type { ErrorCode } from "../errors/error-codes.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import { isSoundReward, SOUND_REWARD } from "../flow/sound-numbers.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryReward, Turn } from "../flow/trajectory.ts";
import { SESSION_HEADER } from "../generation/server/session-id.ts";
import type { FinishedSession } from "../generation/server/session-record.ts";
import type { Sessions } from "../generation/server/sessions.ts";
import { agentTurns, lastTurn } from "./agent-turns.ts";
import { expectOutcome } from "./check-answers.ts";
import {
  type EpisodeControl,
  type EpisodeLimits,
  type EpisodeParts,
  type EpisodeTask,
  promptTooLong,
  type RunEpisode,
} from "./episode.ts";
import { type Attempt, attempt, OVER } from "./failure-policy.ts";

/**
 * The agent: any code that calls an OpenAI-compatible endpoint. Resolves with its reward, or with undefined where the
 * reward is posted to `rewardURL` or given by `score`.
 */
export type RunAgent = (prompt: Prompt, call: AgentCall) => Promise<number | undefined>;

/** What an agent is given for one episode. */
export interface AgentCall {
  /**
   * For the client of the `openai` package, the AI SDK and the like. It names the session, so nothing else has to be
   * set.
   */
  readonly baseURL: string;
  /** Any text where the server needs none: clients insist on one. */
  readonly apiKey: string;
  readonly sessionId: string;
  /** Name the session too, for agents that use the server's plain base URL. */
  readonly headers: Readonly<Record<string, string>>;
  /** Takes POST { reward, metadata }; numbers in the metadata become metrics of the trajectory. */
  readonly rewardURL: string;
  /** For whatever the agent draws, and to pass on as `seed` where samples should be repeatable. */
  readonly seed: number;
  /** Aborted when the episode is over, for whatever reason. */
  readonly signal: AbortSignal;
}

export interface AgentEpisodeParts {
  /** A server in this process: its record of the session is the trajectory. */
  readonly server: { readonly sessions: Sessions };
  /** Where it listens, without /v1: what `listen` gave. */
  readonly url: string;
  readonly apiKey?: string;
  readonly runAgent: RunAgent;
  /** Scores episodes that have no reward from the agent. */
  readonly score?: EpisodeParts["score"];
  /** Turns tokens into text, for people and for rewards. */
  readonly format: ChatFormat;
  readonly limits: Pick<EpisodeLimits, "episodeMs" | "rewardMs">;
  /** A new text every time, of letters, digits and dashes: sessions are named by it. */
  readonly newId: () => string;
  readonly clock: Clock;
}

/** Episodes of an agent, for the scheduler. */
export function createAgentEpisodes(parts: AgentEpisodeParts): RunEpisode {
  return (task, control) => new AgentEpisode(parts, task, control).run();
}

class AgentEpisode {
  readonly #parts: AgentEpisodeParts;
  readonly #task: EpisodeTask;
  readonly #control: EpisodeControl;
  readonly #stop = new AbortController();
  readonly #sessionId: string;

  constructor(parts: AgentEpisodeParts, task: EpisodeTask, control: EpisodeControl) {
    this.#parts = parts;
    this.#task = task;
    this.#control = control;
    this.#sessionId = `${task.id}:${parts.newId()}`;
  }

  async run(): Promise<Trajectory> {
    const { clock, server, format } = this.#parts;
    const { queuedMs, ...task } = this.#task;
    const startedMs = clock();
    const sessionStartedMs = server.sessions.nowMs;
    const agent = await this.#runAgent();
    this.#stop.abort(OVER);
    const session = server.sessions.take(this.#sessionId);
    const turns = session === undefined ? [] : agentTurns(session, format, sessionStartedMs);
    const played = this.#endOf(agent, session);
    const scoredMs = clock();
    const { end, reward } = await this.#score(played, agent, session, turns);
    const endedMs = clock();
    const generateMs = turns.reduce((sum, turn) => sum + turn.generateMs, 0);
    const rewardMs = endedMs - scoredMs;
    const totalMs = endedMs - startedMs;
    // Calls may overlap, so that they take more than the whole.
    const envMs = Math.max(0, totalMs - rewardMs - generateMs);
    return {
      ...task,
      turns,
      end,
      reward,
      metrics: numbersOf(session),
      timings: { startedMs, queuedMs, generateMs, envMs, rewardMs, totalMs },
    };
  }

  #runAgent(): Promise<Attempt<number | undefined>> {
    const { runAgent, url, apiKey = "none", limits } = this.#parts;
    const { prompt, seed } = this.#task;
    const sessionId = this.#sessionId;
    this.#control.onStage?.("environment");
    const name = `The agent of "${prompt.domain}"`;
    return attempt(
      { stage: "environment", name, timeoutMs: limits.episodeMs, signal: this.#control.signal, stop: this.#stop },
      async (signal) =>
        runAgent(structuredClone(prompt), {
          baseURL: `${url}/sessions/${sessionId}/v1`,
          apiKey,
          sessionId,
          headers: { [SESSION_HEADER]: sessionId },
          rewardURL: `${url}/v1/sessions/${sessionId}/reward`,
          seed,
          signal,
        }),
    );
  }

  #endOf(agent: Attempt<number | undefined>, session: FinishedSession | undefined): TrajectoryEnd {
    if (agent.kind === "aborted") return agent;
    const last = session && lastTurn(session);
    const refused = session?.refused ?? null;
    if (last === undefined && refused === "context") return promptTooLong(this.#task.prompt);
    if (agent.kind === "failed" && !this.#isScoredLate(agent.error, session)) return blame(agent, session);
    if (last === undefined) return { kind: "failed", stage: "environment", error: silentAgent(this.#task.prompt) };
    if (refused !== null) return { kind: "truncated", limit: refused };
    if (agent.kind === "failed") return { kind: "truncated", limit: "wall-clock" };
    if (last.finish.kind !== "length") return { kind: "completed" };
    return { kind: "truncated", limit: last.finish.limit === "context" ? "context" : "tokens" };
  }

  /** Out of time, turns or context, but what it did until then can be scored. */
  #isScoredLate({ code, details }: RerollError, session: FinishedSession | undefined): boolean {
    const isOutOfTime = code === "TIMEOUT" && details.timeoutMs !== undefined;
    const isOut = isOutOfTime || (session !== undefined && session.refused !== null);
    return isOut && (this.#parts.score !== undefined || session?.end.kind === "rewarded");
  }

  async #score(
    end: TrajectoryEnd,
    agent: Attempt<number | undefined>,
    session: FinishedSession | undefined,
    turns: readonly Turn[],
  ): Promise<{ readonly end: TrajectoryEnd; readonly reward: TrajectoryReward }> {
    const none = { total: 0, score: 0, parts: {} };
    if (end.kind === "failed" || end.kind === "aborted") return { end, reward: none };
    const returned = agent.kind === "done" ? agent.value : undefined;
    const posted = session?.end.kind === "rewarded" ? session.end.reward : undefined;
    const given = returned ?? posted;
    if (given !== undefined) {
      if (isSoundReward(given)) return { end, reward: { total: given, score: given, parts: {} } };
      return { end: rewardFailure("INVALID_REWARD", `The agent returned the reward ${given}`), reward: none };
    }
    const scored = await this.#callScore(end, turns);
    if (scored.kind !== "done") return { end: scored, reward: none };
    const { value: outcome } = scored;
    if (outcome.kind === "failed") {
      return { end: { kind: "failed", stage: "reward", error: outcome.error }, reward: none };
    }
    return { end, reward: { total: outcome.score, score: outcome.score, parts: outcome.parts } };
  }

  async #callScore(end: TrajectoryEnd, turns: readonly Turn[]) {
    const { score, limits } = this.#parts;
    if (score === undefined) return rewardFailure("REWARD_MISSING", "The agent gave no reward");
    const { prompt } = this.#task;
    const input = {
      prompt,
      reply: turns.at(-1)?.replyText ?? "",
      messages: turns.flatMap(({ messages, replyText }) => [...messages, { role: "assistant", content: replyText }]),
      numReplyTokens: turns.reduce((sum, { reply }) => sum + reply.tokenIds.length, 0),
      isTruncated: end.kind === "truncated",
    };
    this.#control.onStage?.("scoring");
    const { signal } = this.#control;
    const name = `Reward of "${prompt.domain}"`;
    const wait = { stage: "reward", name, timeoutMs: limits.rewardMs, signal, stop: new AbortController() } as const;
    return attempt(wait, (stop) => score(input, stop), expectOutcome);
  }
}

/** An agent that fails after the engine did is not to blame. */
function blame(
  failure: Attempt<unknown> & { kind: "failed" },
  session: FinishedSession | undefined,
): TrajectoryEnd & { kind: "failed" } {
  for (const { finish } of session?.brokenTurns ?? []) {
    if (finish.kind === "failed") return { kind: "failed", stage: "generation", error: finish.error };
  }
  return failure;
}

function numbersOf(session: FinishedSession | undefined): Readonly<Record<string, number>> {
  if (session?.end.kind !== "rewarded") return {};
  const entries = Object.entries(session.end.metadata);
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => typeof entry[1] === "number" && Number.isFinite(entry[1])),
  );
}

function silentAgent({ domain }: Prompt): RerollError {
  return new RerollError(
    "AGENT_SILENT",
    `The agent of "${domain}" ended without a reply of the model under its session. It must use the baseURL that it is given, or send the headers.`,
  );
}

function rewardFailure(code: ErrorCode, what: string): TrajectoryEnd & { kind: "failed" } {
  const message = `${what}. Return ${SOUND_REWARD} from runAgent, POST it to rewardURL, or pass score.`;
  return { kind: "failed", stage: "reward", error: new RerollError(code, message) };
}
