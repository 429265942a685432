/**
 * An environment that lives in a thread, and survives it.
 *
 * A thread is lost in one call, of one episode, which fails. The others that lived there move to another thread, where they are made
 * again from the same prompt and seed, and are given the same replies. An environment draws chance from its seed only, so it comes to the same
 * state; one that does not is told apart by its answers, and fails.
 */
import { isDeepStrictEqual } from "node:util";
import { RerollError } from "../errors/reroll-error.ts";
import type { Prompt } from "../flow/prompt.ts";
import { type WatchedThread, wasLostElsewhere } from "../workers/watched-thread.ts";
import type { EnvHost, Shown } from "./env-host.ts";
import type { EnvStep, Opening, Reply, TextEnv } from "./text-env.ts";

/** A thread of environments. */
export type EnvThread = WatchedThread<EnvHost>;

interface HostedEpisode {
  /** Above 0, and of no other episode. */
  readonly number: number;
  /** Name of the environment in errors. */
  readonly name: string;
  readonly prompt: Prompt;
  readonly seed: number;
  /** The thread for one more episode. Throws when there will be none. */
  readonly pickThread: () => EnvThread;
}

/** Makes the environment in a thread. */
export async function makeHostedEnv(episode: HostedEpisode): Promise<TextEnv> {
  const env = new HostedEnv(episode);
  await env.make();
  return env;
}

/** A call that was answered: the opening, or a reply and what came of it. */
interface Played {
  readonly reply: Reply | null;
  readonly answer: Opening | EnvStep;
}

class HostedEnv implements TextEnv {
  readonly #episode: HostedEpisode;
  readonly #played: Played[] = [];
  #thread: EnvThread | null = null;
  #picture = "";
  #hasEnded = false;

  constructor(episode: HostedEpisode) {
    this.#episode = episode;
  }

  make(): Promise<void> {
    return this.#lasting(async () => {});
  }

  async start(signal: AbortSignal): Promise<Opening> {
    return (await this.#play(null, signal)) as Opening;
  }

  async step(reply: Reply, signal: AbortSignal): Promise<EnvStep> {
    return (await this.#play(reply, signal)) as EnvStep;
  }

  render(): string {
    return this.#picture;
  }

  async end(): Promise<void> {
    this.#hasEnded = true;
    await this.#leave();
  }

  async #leave(): Promise<void> {
    const thread = this.#thread;
    this.#thread = null;
    if (thread === null) return;
    thread.load--;
    if (!thread.isRunning) return;
    try {
      await thread.ask((envs) => envs.end(this.#episode.number));
    } catch (error) {
      // With its thread the episode is gone as well: nothing is left to free.
      if (thread.isRunning) throw error;
    }
  }

  async #play(reply: Reply | null, signal: AbortSignal): Promise<Opening | EnvStep> {
    const answer = await this.#lasting((thread) => this.#ask(thread, reply, signal), signal);
    this.#played.push({ reply, answer });
    return answer;
  }

  /** Does something in the thread of the episode, and in the next one where that is lost to another episode. */
  async #lasting<Answer>(work: (thread: EnvThread) => Promise<Answer>, signal?: AbortSignal): Promise<Answer> {
    for (;;) {
      try {
        const thread = this.#thread?.isRunning ? this.#thread : await this.#move(signal);
        return await work(thread);
      } catch (error) {
        if (signal?.aborted || !wasLostElsewhere(error, "ENV_THREAD_LOST", this.#episode.number)) throw error;
      }
    }
  }

  /** Makes the episode in a thread, and plays it to where it was. */
  async #move(signal: AbortSignal | undefined): Promise<EnvThread> {
    const { number, name, prompt, seed, pickThread } = this.#episode;
    const thread = pickThread();
    thread.load++;
    try {
      await thread.ask((envs) => envs.make(number, prompt, seed));
    } catch (error) {
      thread.load--;
      throw error;
    }
    this.#thread = thread;
    for (const { reply, answer } of this.#played) {
      const again = await this.#ask(thread, reply, signal ?? new AbortController().signal);
      if (!isDeepStrictEqual(again, answer)) throw notTheSame(name);
    }
    // Given up on in the meantime: nobody would end it any more.
    if (this.#hasEnded) await this.#leave();
    return thread;
  }

  async #ask(thread: EnvThread, reply: Reply | null, signal: AbortSignal): Promise<Opening | EnvStep> {
    const { number } = this.#episode;
    const { answer, picture }: Shown<Opening | EnvStep> = await thread.ask<Shown<Opening | EnvStep>>(
      (envs) => (reply === null ? envs.start(number, signal) : envs.step(number, reply, signal)),
      signal,
    );
    this.#picture = picture ?? this.#picture;
    return answer;
  }
}

function notTheSame(name: string): RerollError {
  return new RerollError(
    "ENV_THREAD_LOST",
    `Env "${name}" lost its thread to another episode, and did otherwise when it was played again with the same seed and replies. ` +
      "Draw all chance from the seed that makeEnv is given.",
    { name, running: 0 },
  );
}
