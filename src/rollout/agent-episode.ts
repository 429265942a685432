/**
 * Episodes of an agent of one's own, unchanged: it talks to the OpenAI-compatible server, and what it makes the model
 * write is trained on.
 *
 * In: a prompt. Out: a trajectory with the very tokens that the server drew for the agent's session; replies whose
 * history the agent rewrote are forked samples. An agent may play several players, each with a session and a reward of its
 * own: the turns of those that are trained are in the trajectory, those of the others are not kept. Never rejects for
 * what the agent, the engine or the reward do: that is in `end`.
 *
 * Waits for: the agent, up to `episodeMs`. Given up on, its signal is aborted and its next call is refused. The server
 * samples as the agent asks; `samplingOverrides` of the server have the last word, as on the temperature in training. Held
 * rollouts do not stop an agent.
 */
import type { ChatFormat } from "../chat/conversation.ts";
import { didYouMean } from "../errors/nearest-name.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { Clock } from "../flow/clock.ts";
import { copyData } from "../flow/copy-data.ts";
import type { Prompt } from "../flow/prompt.ts";
import { copyNumbers } from "../flow/sound-numbers.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryReward, Turn } from "../flow/trajectory.ts";
import { SESSION_HEADER } from "../generation/server/session-id.ts";
import type { FinishedSession } from "../generation/server/session-record.ts";
import type { Sessions } from "../generation/server/sessions.ts";
import type { AgentEndpoint, RunAgent } from "./agent-call.ts";
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
import { type Attempt, attempt, OVER, settled, type Wait } from "./failure-policy.ts";
import { type ReadScore, readScore } from "./read-score.ts";

/** Where calls of the agent go. */
interface AgentServer {
  /** A server in this process: its record of the session is the trajectory. */
  readonly server: { readonly sessions: Sessions };
  /** Where it listens, without /v1: what `listen` gave. */
  readonly url: string;
}

/** A player of an episode with several. */
interface AgentPlayer extends AgentServer {
  /** Whether its turns are trained on. */
  readonly isTrained: boolean;
}

export interface AgentEpisodeParts extends AgentServer {
  /** The players by name, at least one of them trained. Absent: the agent plays alone, and is trained. */
  readonly players?: Readonly<Record<string, AgentPlayer>>;
  readonly apiKey?: string;
  /** The name of the model, for the agent to pass on. Default: "policy". */
  readonly modelName?: string;
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

/** A player with its session. */
interface Seat extends AgentPlayer {
  readonly name: string;
  readonly sessionId: string;
  /** On the clock of its server. */
  readonly startedMs: number;
}

/** What a trained player did. Its session is undefined where it made no call. */
interface Play {
  readonly name: string;
  readonly session: FinishedSession | undefined;
  readonly turns: readonly Turn[];
}

type Failure = TrajectoryEnd & { readonly kind: "failed" };

/** What an agent that plays alone is called. */
const ALONE = "agent";

class AgentEpisode {
  readonly #parts: AgentEpisodeParts;
  readonly #task: EpisodeTask;
  readonly #control: EpisodeControl;
  readonly #stop = new AbortController();
  readonly #seats: readonly Seat[];

  constructor(parts: AgentEpisodeParts, task: EpisodeTask, control: EpisodeControl) {
    this.#parts = parts;
    this.#task = task;
    this.#control = control;
    const { server, url, players = { [ALONE]: { server, url, isTrained: true } } } = parts;
    const id = `${task.id}:${parts.newId()}`;
    this.#seats = Object.entries(players).map(([name, player]) => ({
      ...player,
      name,
      sessionId: parts.players === undefined ? id : `${id}:${name}`,
      startedMs: player.server.sessions.nowMs,
    }));
  }

  async run(): Promise<Trajectory> {
    const { clock } = this.#parts;
    const { queuedMs, ...task } = this.#task;
    const startedMs = clock();
    const agent = await this.#runAgent();
    this.#stop.abort(OVER);
    const plays = this.#takePlays();
    const turns = plays.flatMap((play) => play.turns);
    const played = this.#endOf(agent, plays);
    const scoredMs = clock();
    const { end, reward } = await this.#score(played, agent, plays);
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
      metrics: { ...postedMetrics(plays), ...(agent.kind === "done" && agent.value.metrics) },
      timings: { startedMs, queuedMs, generateMs, envMs, rewardMs, totalMs },
    };
  }

  async #runAgent(): Promise<Attempt<ReadScore>> {
    const { runAgent, limits } = this.#parts;
    const { prompt, seed } = this.#task;
    const { signal, onStage } = this.#control;
    onStage?.("environment");
    const name = `The agent of "${prompt.domain}"`;
    const endpoints = new Map(this.#seats.map((seat) => [seat.name, this.#endpointOf(seat)]));
    const player = (asked: string) => endpoints.get(asked) ?? unknownPlayer(asked, this.#parts.players);
    const [first] = endpoints.values();
    const answer = await attempt(
      { stage: "environment", name, timeoutMs: limits.episodeMs, signal, stop: this.#stop },
      async (stop) => runAgent(copyData(prompt), { ...first!, player, seed, signal: stop }),
    );
    if (answer.kind !== "done") return answer;
    return settled({ stage: "reward", name, signal }, () => readScore(answer.value, [...endpoints.keys()]));
  }

  #endpointOf({ url, sessionId }: Seat): AgentEndpoint {
    const { apiKey = "none", modelName = "policy" } = this.#parts;
    return {
      baseURL: `${url}/sessions/${sessionId}/v1`,
      apiKey,
      model: modelName,
      sessionId,
      headers: { [SESSION_HEADER]: sessionId },
      rewardURL: `${url}/v1/sessions/${sessionId}/reward`,
    };
  }

  /** Ends all sessions, and gives what the trained players did. */
  #takePlays(): readonly Play[] {
    const { players, format } = this.#parts;
    return this.#seats.flatMap(({ name, isTrained, server, sessionId, startedMs }) => {
      const session = server.sessions.take(sessionId);
      if (!isTrained) return [];
      const turns = session === undefined ? [] : agentTurns(session, format, startedMs);
      return [
        { name, session, turns: players === undefined ? turns : turns.map((turn) => ({ ...turn, player: name })) },
      ];
    });
  }

  #endOf(agent: Attempt<ReadScore>, plays: readonly Play[]): TrajectoryEnd {
    if (agent.kind === "aborted") return agent;
    const { prompt } = this.#task;
    const sessions = plays.flatMap(({ session }) => session ?? []);
    const last = lastTurn(sessions);
    const refused = sessions.find((session) => session.refused !== null)?.refused ?? null;
    if (last === undefined && refused === "context") return promptTooLong(prompt);
    if (agent.kind === "failed" && !this.#isScoredLate(agent, plays)) return blame(agent, sessions);
    if (last === undefined) return failure("environment", silentAgent(prompt));
    if (refused !== null) return { kind: "truncated", limit: refused };
    if (agent.kind === "failed") return { kind: "truncated", limit: "wall-clock" };
    if (last.finish.kind !== "length") return { kind: "completed" };
    return { kind: "truncated", limit: last.finish.limit === "context" ? "context" : "tokens" };
  }

  /** Out of time, turns or context, but what it did until then can be scored. */
  #isScoredLate({ stage, error }: Failure, plays: readonly Play[]): boolean {
    if (stage === "reward") return false;
    const isOutOfTime = error.code === "TIMEOUT" && error.details.timeoutMs !== undefined;
    const isOut = isOutOfTime || plays.some(({ session }) => session !== undefined && session.refused !== null);
    return isOut && (this.#parts.score !== undefined || plays.every(({ session }) => session?.end.kind === "rewarded"));
  }

  /** The reward of every player. That of the trajectory is their mean. */
  async #score(
    end: TrajectoryEnd,
    agent: Attempt<ReadScore>,
    plays: readonly Play[],
  ): Promise<{ readonly end: TrajectoryEnd; readonly reward: TrajectoryReward }> {
    const none = { total: 0, score: 0, parts: {} };
    if (end.kind === "failed" || end.kind === "aborted") return { end, reward: none };
    const returned = agent.kind === "done" ? agent.value.rewards : new Map<string, number>();
    const rewards: Record<string, number> = {};
    let parts: Readonly<Record<string, number>> = {};
    for (const play of plays) {
      const { name, session } = play;
      const given = returned.get(name) ?? (session?.end.kind === "rewarded" ? session.end.reward : undefined);
      const scored =
        given === undefined
          ? await this.#callScore(end, play)
          : { kind: "done" as const, value: { score: given, parts: {} } };
      if (scored.kind !== "done") return { end: scored, reward: none };
      rewards[name] = scored.value.score;
      parts = { ...parts, ...scored.value.parts };
    }
    const all = Object.values(rewards);
    const total = all.reduce((sum, reward) => sum + reward, 0) / all.length;
    if (this.#parts.players === undefined) return { end, reward: { total, score: total, parts } };
    return { end, reward: { total, score: total, parts: { ...parts, ...rewards }, players: rewards } };
  }

  async #callScore(end: TrajectoryEnd, { name, turns }: Play) {
    const { score, limits, players } = this.#parts;
    if (score === undefined) return failure("reward", noReward(players === undefined ? undefined : name));
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
    const stop = new AbortController();
    const wait: Wait = {
      stage: "reward",
      name: `Reward of "${prompt.domain}"`,
      timeoutMs: limits.rewardMs,
      signal,
      stop,
    };
    const scored = await attempt(wait, (aborted) => score(input, aborted, stop), expectOutcome);
    if (scored.kind !== "done") return scored;
    if (scored.value.kind === "failed") return failure("reward", scored.value.error);
    return { kind: "done" as const, value: scored.value };
  }
}

/** An agent that fails after the engine did is not to blame; one that a limit stopped is told how to be scored all the same. */
function blame(agent: Failure, sessions: readonly FinishedSession[]): Failure {
  for (const { finish } of sessions.flatMap(({ brokenTurns }) => brokenTurns)) {
    if (finish.kind === "failed") return failure("generation", finish.error);
  }
  const limit = sessions.find(({ refused }) => refused !== null)?.refused ?? null;
  if (limit === null) return agent;
  const { error } = agent;
  const key = limit === "turns" ? "rollout.maxTurns" : "rollout.contextLength";
  const message = `${error.message} It ran into ${key} and gave no reward. Catch the error and return one, score with rewards in the run file, or raise ${key}.`;
  return failure("environment", new RerollError(error.code, message, error.details, { cause: error }));
}

/** Numbers that were posted along with rewards. */
function postedMetrics(plays: readonly Play[]): Readonly<Record<string, number>> {
  const posted = plays.flatMap(({ session }) => (session?.end.kind === "rewarded" ? [session.end.metadata] : []));
  const entries = posted.flatMap((metadata) => Object.entries(metadata));
  return copyNumbers(Object.fromEntries(entries.filter(([, value]) => Number.isFinite(value)))) ?? {};
}

function failure(stage: Failure["stage"], error: RerollError): Failure {
  return { kind: "failed", stage, error };
}

function silentAgent({ domain }: Prompt): RerollError {
  return new RerollError(
    "AGENT_SILENT",
    `The agent of "${domain}" ended without a reply of the model under its session. It must use the baseURL that it is given, or send the headers.`,
  );
}

function noReward(player: string | undefined): RerollError {
  const who = player === undefined ? "The agent gave no reward" : `The agent gave no reward for the player ${player}`;
  return new RerollError(
    "REWARD_MISSING",
    `${who}. Return it from agent, POST it to rewardURL, or set rewards in the run file.`,
  );
}

function unknownPlayer(asked: string, players: AgentEpisodeParts["players"]): never {
  const names = Object.keys(players ?? {});
  const known = names.length === 0 ? "The run file has no players." : `Its players are: ${names.join(", ")}.`;
  throw new RerollError(
    "INVALID_ARGUMENT",
    `player(${JSON.stringify(asked)}) is not in the run file. ${known}${didYouMean(asked, names)} Add it under players.`,
  );
}
