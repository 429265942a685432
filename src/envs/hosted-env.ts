/** An environment that lives in a thread. A thread is lost in one call, of one episode, which fails; the others that lived there move to another. */
import type { Prompt } from "../flow/prompt.ts";
import { type WatchedThread, wasLostElsewhere } from "../workers/watched-thread.ts";
import type { EnvHost, Shown } from "./env-host.ts";
import { type EnvPlace, makeMovingEnv } from "./moving-env.ts";
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
export function makeHostedEnv({ number, name, prompt, seed, pickThread }: HostedEpisode): Promise<TextEnv> {
  return makeMovingEnv({
    name,
    enter: async () => {
      const thread = pickThread();
      thread.load++;
      try {
        await thread.ask((envs) => envs.make(number, prompt, seed));
      } catch (cause) {
        thread.load--;
        throw cause;
      }
      return new ThreadPlace(thread, number);
    },
    expectLoss: (cause) => {
      if (!wasLostElsewhere(cause, "ENV_THREAD_LOST", number)) throw cause;
    },
  });
}

class ThreadPlace implements EnvPlace {
  readonly #thread: EnvThread;
  readonly #episode: number;
  #hasLeft = false;

  constructor(thread: EnvThread, episode: number) {
    this.#thread = thread;
    this.#episode = episode;
  }

  get isThere(): boolean {
    return this.#thread.isRunning;
  }

  ask(_number: number, reply: Reply | null, signal: AbortSignal): Promise<Shown<Opening | EnvStep>> {
    const episode = this.#episode;
    return this.#thread.ask<Shown<Opening | EnvStep>>(
      (envs) => (reply === null ? envs.start(episode, signal) : envs.step(episode, reply, signal)),
      signal,
    );
  }

  async leave(): Promise<void> {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.#thread.load--;
    if (!this.#thread.isRunning) return;
    try {
      await this.#thread.ask((envs) => envs.end(this.#episode));
    } catch (cause) {
      // With its thread the episode is gone as well: nothing is left to free.
      if (this.#thread.isRunning) throw cause;
    }
  }
}
