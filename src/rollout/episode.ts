/**
 * One episode: a model plays an environment, turn by turn, and is scored.
 *
 * In: a prompt and a seed. Out: a trajectory with every token that was sampled. Never rejects for what environments, engines
 * and rewards do: that is in `end`. Waits for: the engine, the environment and the reward, each with a time limit.
 */

import { type ChatFormat, Conversation } from "../chat/conversation.ts";
import type { MakeEnv, Observation, TextEnv } from "../envs/text-env.ts";
import { RerollError } from "../errors/reroll-error.ts";
import type { ChatMessage } from "../flow/chat-message.ts";
import type { Clock } from "../flow/clock.ts";
import type { Prompt } from "../flow/prompt.ts";
import type { EpisodeStage } from "../flow/sample-event.ts";
import type { Trajectory, TrajectoryEnd, TrajectoryReward, Turn } from "../flow/trajectory.ts";
import type { Generate, Sampling } from "../generation/generate.ts";
import { deriveSeed } from "../random/random.ts";
import type { RewardInput } from "../rewards/reward.ts";
import type { RewardOutcome } from "../rewards/score-all.ts";
import { expectEnv, expectOpening, expectOutcome, expectStep, expectTotal } from "./check-answers.ts";
import { type Attempt, attempt, failure, OVER, settled, type Wait } from "./failure-policy.ts";
import type { Gate } from "./gate.ts";
import { generateTurn, type TurnReply } from "./generate-turn.ts";

/** Plays one episode. The scheduler knows nothing else of it, so an agent of one's own can take its place. */
export type RunEpisode = (task: EpisodeTask, control: EpisodeControl) => Promise<Trajectory>;

export interface EpisodeTask {
  readonly id: string;
  readonly groupId: string;
  readonly prompt: Prompt;
  readonly sampleIndex: number;
  readonly seed: number;
  readonly queuedMs: number;
}

export interface EpisodeControl {
  /** Ends the episode as aborted. */
  readonly signal: AbortSignal;
  /** Suspends generation while it is closed. */
  readonly gate: Gate;
  /** Told whenever the episode waits for something else. */
  readonly onStage?: (stage: EpisodeStage) => void;
}

export interface EpisodeParts {
  readonly generate: Generate;
  readonly makeEnv: MakeEnv;
  readonly format: ChatFormat;
  /** Scores a finished trajectory. Absent where the environment's own rewards are all. */
  readonly score?: (input: RewardInput, signal: AbortSignal, stop: AbortController) => Promise<RewardOutcome>;
  /** `maxTokens` is per reply; the seed comes from the episode. */
  readonly sampling: Omit<Sampling, "seed">;
  /** Keeps the sessions of runners apart that share an engine. */
  readonly sessionPrefix?: string;
  readonly limits: EpisodeLimits;
  /** Whether the environment of a prompt gives up by itself what takes too long; `limits.envMs` is then not looked at. */
  readonly keepsTime?: (prompt: Prompt) => boolean;
  readonly clock: Clock;
  /** Context that a teacher of this prompt reads beside it; null for none. Every turn then keeps the teacher's prompt too. */
  readonly teacherContext?: (prompt: Prompt) => string | null;
}

export interface EpisodeLimits {
  /** Replies per episode. */
  readonly maxTurns: number;
  /** Tokens of prompt and reply that the engine can hold. */
  readonly contextLength: number;
  /** For the whole episode, looked at before each turn. Being held back does not count. */
  readonly episodeMs: number;
  /** For one reply. */
  readonly generateMs: number;
  /** For each call of the environment. */
  readonly envMs: number;
  readonly rewardMs: number;
}

/** Generous: a limit is there to end what hangs, not to cut what is slow. */
export const defaultEpisodeLimits: EpisodeLimits = {
  maxTurns: 64,
  contextLength: 32_768,
  episodeMs: 1_800_000,
  generateMs: 900_000,
  envMs: 60_000,
  rewardMs: 120_000,
};

/** Episodes of an environment, played by a model through `generate`. */
export function createEpisodeRunner(parts: EpisodeParts): RunEpisode {
  // A function that throws at once would escape whoever waits for a promise.
  return async (task, control) => new Episode(parts, task, control, firstView(parts, task)).run();
}

/** Plays one episode. Out: also its conversation, unless the environment never started. */
export async function playTask(
  parts: EpisodeParts,
  task: EpisodeTask,
  control: EpisodeControl,
  view: EpisodeView = firstView(parts, task),
): Promise<{ readonly trajectory: Trajectory; readonly conversation: Conversation | null }> {
  const episode = new Episode(parts, task, control, view);
  return { trajectory: await episode.run(), conversation: episode.conversation };
}

/** What the model is shown in an episode, beside the conversation. */
interface EpisodeView {
  /** Text before the first message. */
  readonly lead: string;
  /** Text before the first message of the twin of each prompt; null for no twins. */
  readonly twinLead: string | null;
  /** Word that the seeds of replies are derived by: a second try draws others. */
  readonly draws: "turn" | "retry";
}

function firstView({ teacherContext }: EpisodeParts, { prompt }: EpisodeTask): EpisodeView {
  return { lead: "", twinLead: teacherContext?.(prompt) ?? null, draws: "turn" };
}

const NO_REWARD: TrajectoryReward = { total: 0, score: 0, parts: {} };

class Episode {
  readonly #parts: EpisodeParts;
  readonly #task: EpisodeTask;
  readonly #control: EpisodeControl;
  readonly #view: EpisodeView;
  readonly #startedMs: number;
  /** One signal for all that works for the episode: whatever is given up on ends it. */
  readonly #stop = new AbortController();
  readonly #turns: Turn[] = [];
  #env: TextEnv | null = null;
  #messages: readonly ChatMessage[] = [];
  #heldMs = 0;
  #rewardMs = 0;
  #reward = NO_REWARD;
  #conversation: Conversation | null = null;
  #twin: Conversation | null = null;

  constructor(parts: EpisodeParts, task: EpisodeTask, control: EpisodeControl, view: EpisodeView) {
    this.#parts = parts;
    this.#task = task;
    this.#control = control;
    this.#view = view;
    this.#startedMs = parts.clock();
  }

  get conversation(): Conversation | null {
    return this.#conversation;
  }

  async run(): Promise<Trajectory> {
    const played = await this.#playEnv();
    const end = played.kind === "completed" || played.kind === "truncated" ? await this.#score(played) : played;
    this.#stop.abort(OVER);
    const { id, groupId, prompt, sampleIndex, seed, queuedMs } = this.#task;
    const sum = (pick: (turn: Turn) => number) => this.#turns.reduce((total, turn) => total + pick(turn), 0);
    return {
      id,
      groupId,
      prompt,
      sampleIndex,
      seed,
      turns: this.#turns,
      end,
      reward: this.#reward,
      metrics: meanMetrics(this.#turns),
      timings: {
        startedMs: this.#startedMs,
        queuedMs,
        generateMs: sum((turn) => turn.generateMs),
        envMs: sum((turn) => turn.envMs),
        rewardMs: this.#rewardMs,
        totalMs: this.#parts.clock() - this.#startedMs,
      },
    };
  }

  async #playEnv(): Promise<TrajectoryEnd> {
    const { prompt, seed } = this.#task;
    const made = await this.#attempt(
      "environment",
      "creation",
      () => this.#parts.makeEnv(prompt, deriveSeed(seed, "env")),
      (env) => this.#keepEnv(expectEnv(env)),
    );
    const end = made.kind === "done" ? await this.#playSafely(made.value) : made;
    const ended = await this.#endEnv();
    return ended.kind === "failed" && end.kind !== "failed" ? ended : end;
  }

  /** One that comes when nobody waits for it any more is ended at once. */
  #keepEnv(env: TextEnv): TextEnv {
    this.#env = env;
    if (this.#stop.signal.aborted) void this.#endEnv();
    return env;
  }

  /** The episode's signal has no say here: what an environment holds must be freed whatever happened. */
  async #endEnv(): Promise<Attempt<void>> {
    const env = this.#env;
    this.#env = null;
    if (env?.end === undefined) return { kind: "done", value: undefined };
    const stop = new AbortController();
    return attempt({ ...this.#wait("environment", "end"), stop, signal: stop.signal }, () => env.end?.());
  }

  /** What only a broken engine or listener can bring about still ends the environment. */
  async #playSafely(env: TextEnv): Promise<TrajectoryEnd> {
    try {
      return await this.#play(env);
    } catch (cause) {
      const wait = { stage: "generation", name: `Episode ${this.#task.id}`, signal: this.#control.signal } as const;
      return failure(wait, cause);
    }
  }

  async #play(env: TextEnv): Promise<TrajectoryEnd> {
    const started = await this.#attempt("environment", "start", (signal) => env.start(signal), expectOpening);
    if (started.kind !== "done") return started;
    const { instructions, tools, observation: first } = started.value;
    const { format } = this.#parts;
    const { lead, twinLead } = this.#view;
    const conversation = new Conversation(format, instructions, tools, lead);
    this.#conversation = conversation;
    if (twinLead !== null) this.#twin = new Conversation(format, instructions, tools, twinLead);
    let observation = first;
    for (let index = 0; ; index++) {
      const outcome = await this.#turn(env, conversation, observation, index);
      this.#messages = conversation.messages;
      if (outcome.kind !== "continues") return outcome.end;
      observation = outcome.observation;
    }
  }

  async #turn(
    env: TextEnv,
    conversation: Conversation,
    observation: Observation,
    index: number,
  ): Promise<{ kind: "continues"; observation: Observation } | { kind: "ended"; end: TrajectoryEnd }> {
    const { clock, limits, format } = this.#parts;
    const { messages, stateKey } = observation;
    const startedMs = clock();
    if (startedMs - this.#startedMs - this.#heldMs > limits.episodeMs) return truncated("wall-clock");
    const asked = await settled(this.#wait("environment", "messages"), async () => ({
      promptIds: await conversation.ask(messages, limits.contextLength),
      twinPromptIds: await this.#twin?.ask(messages),
    }));
    if (asked.kind !== "done") return { kind: "ended", end: asked };
    const { promptIds, twinPromptIds } = asked.value;
    if (promptIds.length >= limits.contextLength) {
      // A conversation that has outgrown the context is cut there, and what was sampled counts. A prompt that never fit is none.
      return index > 0
        ? truncated("context")
        : { kind: "ended", end: promptTooLong(this.#task.prompt, limits.contextLength) };
    }
    const generated = await this.#generate(promptIds, index);
    if (generated.kind !== "done") return { kind: "ended", end: generated };
    const { reply, finish, heldMs } = generated.value;
    const generateMs = clock() - startedMs - heldMs;
    this.#heldMs += heldMs;
    const replyText = format.replyText(reply);
    conversation.answer({ promptIds, reply, replyText });
    if (twinPromptIds !== undefined) this.#twin?.answer({ promptIds: twinPromptIds, reply, replyText });
    const addTurn = (outcome: Pick<Turn, "reward" | "metrics" | "envMs" | "nextStateKey">) =>
      this.#turns.push({
        promptIds,
        reply,
        replyText,
        messages,
        finish: finish.kind,
        generateMs,
        startedMs: startedMs - this.#startedMs,
        ...(stateKey !== undefined && { stateKey }),
        ...(twinPromptIds !== undefined && { twinPromptIds }),
        ...outcome,
      });
    if (finish.kind === "aborted" || finish.kind === "failed") {
      addTurn({ reward: 0, metrics: {}, envMs: 0 });
      if (finish.kind === "aborted") return { kind: "ended", end: { kind: "aborted" } };
      return { kind: "ended", end: { kind: "failed", stage: "generation", error: finish.error } };
    }
    const steppedMs = clock();
    const said = { text: replyText, isCut: finish.kind === "length" };
    const stepped = await this.#attempt("environment", "step", (signal) => env.step(said, signal), expectStep);
    const envMs = clock() - steppedMs;
    if (stepped.kind !== "done") {
      addTurn({ reward: 0, metrics: {}, envMs });
      return { kind: "ended", end: stepped };
    }
    const step = stepped.value;
    const nextStateKey = step.observation?.stateKey;
    addTurn({ reward: step.reward, metrics: step.metrics, envMs, ...(nextStateKey !== undefined && { nextStateKey }) });
    if (step.kind === "terminated") return { kind: "ended", end: { kind: "completed" } };
    if (step.kind === "truncated") return truncated("environment");
    if (index + 1 >= limits.maxTurns) return truncated("turns");
    if (finish.kind === "length" && finish.limit === "context") return truncated("context");
    return { kind: "continues", observation: step.observation };
  }

  #generate(promptIds: Int32Array, index: number): Promise<Attempt<TurnReply>> {
    const { generate, sampling, limits, format, clock } = this.#parts;
    const { id, seed } = this.#task;
    const maxTokens = Math.min(sampling.maxTokens, limits.contextLength - promptIds.length);
    return generateTurn(generate, this.#control.gate, {
      promptIds,
      sampling: {
        stopIds: format.tokenizer.stopIds,
        ...sampling,
        maxTokens,
        seed: deriveSeed(seed, this.#view.draws, index),
      },
      ...(format.context === "conversation" && { sessionId: `${this.#parts.sessionPrefix ?? ""}${id}` }),
      wait: this.#wait("generation", "reply"),
      clock,
      onStage: this.#control.onStage,
    });
  }

  async #score(end: TrajectoryEnd): Promise<TrajectoryEnd> {
    const { score, clock } = this.#parts;
    const fromTurns = this.#turns.reduce((total, turn) => total + turn.reward, 0);
    const total = (score: number): Attempt<number> => {
      try {
        return { kind: "done", value: expectTotal(fromTurns + score) };
      } catch (cause) {
        return failure(this.#wait("reward", "total"), cause);
      }
    };
    if (score === undefined) {
      const summed = total(0);
      if (summed.kind !== "done") return summed;
      this.#reward = { total: summed.value, score: 0, parts: {} };
      return end;
    }
    const startedMs = clock();
    const input: RewardInput = {
      prompt: this.#task.prompt,
      reply: this.#turns.at(-1)?.replyText ?? "",
      messages: this.#messages,
      numReplyTokens: this.#turns.reduce((total, { reply }) => total + reply.tokenIds.length, 0),
      isTruncated: end.kind === "truncated",
    };
    const scored = await this.#attempt("reward", "score", (signal) => score(input, signal, this.#stop), expectOutcome);
    this.#rewardMs = clock() - startedMs;
    if (scored.kind !== "done") return scored;
    const outcome = scored.value;
    if (outcome.kind === "failed") return { kind: "failed", stage: "reward", error: outcome.error };
    const summed = total(outcome.score);
    if (summed.kind !== "done") return summed;
    this.#reward = { total: summed.value, score: outcome.score, parts: outcome.parts };
    return end;
  }

  #attempt<Result>(
    stage: Wait["stage"],
    call: string,
    work: (signal: AbortSignal) => Result | Promise<Result>,
    check: (answer: Result) => Result,
  ): Attempt<Result> | Promise<Attempt<Result>> {
    this.#control.onStage?.(stage === "reward" ? "scoring" : "environment");
    return attempt(this.#wait(stage, call), work, check);
  }

  #wait(stage: Wait["stage"], call: string): Wait {
    const { limits } = this.#parts;
    const { domain } = this.#task.prompt;
    const { signal } = this.#control;
    const stop = this.#stop;
    if (stage === "generation")
      return { stage, name: `Generation of a ${call}`, timeoutMs: limits.generateMs, signal, stop };
    if (stage === "reward") return { stage, name: `Reward of "${domain}"`, timeoutMs: limits.rewardMs, signal, stop };
    const timeoutMs = this.#parts.keepsTime?.(this.#task.prompt) ? Number.POSITIVE_INFINITY : limits.envMs;
    return { stage, name: `Env "${domain}" ${call}`, timeoutMs, signal, stop };
  }
}

function truncated(limit: "context" | "turns" | "wall-clock" | "environment"): { kind: "ended"; end: TrajectoryEnd } {
  return { kind: "ended", end: { kind: "truncated", limit } };
}

/** The mean of each number over the turns that have it. */
function meanMetrics(turns: readonly Turn[]): Readonly<Record<string, number>> {
  const sums = new Map<string, { total: number; count: number }>();
  for (const { metrics } of turns) {
    for (const [name, value] of Object.entries(metrics)) {
      const sum = sums.get(name) ?? { total: 0, count: 0 };
      sums.set(name, { total: sum.total + value, count: sum.count + 1 });
    }
  }
  return Object.fromEntries([...sums].map(([name, { total, count }]) => [name, total / count]));
}

/** The end of an episode whose prompt leaves no room for a reply. The scheduler leaves such prompts out. */
export function promptTooLong({ id }: Prompt, contextLength?: number): TrajectoryEnd {
  const size = contextLength === undefined ? "" : ` of ${contextLength} tokens`;
  const message = `Prompt "${id}" leaves no room for a reply in the context${size}.`;
  return { kind: "failed", stage: "environment", error: new RerollError("PROMPT_TOO_LONG", message, { id }) };
}
